// The listeners of the tests' Kafka brokers: each lets in whom it should, and the client says why it was refused.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { KafkaListener } from "../support/kafka/broker-properties.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";
import { type ClientOptions, errorCodes, sendMessage } from "../support/kafka/send-message.ts";

const valuesIn = async (cluster: KafkaCluster) =>
  (await readTopic(cluster, "in", { isolation: "read_committed" })).map(({ value }) => String(value));

describe("listeners", () => {
  const users = { alice: "alice's \\ secret" };
  const retries = 0;
  const mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] as const;
  let cluster: KafkaCluster;
  beforeAll(async () => {
    const listeners: KafkaListener[] = ["SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"];
    cluster = await KafkaCluster.start({ listeners, users, authorize: true });
    await cluster.createTopic("in");
    const write = { resource: "topic", name: "in", operations: ["WRITE", "DESCRIBE"] } as const;
    for (const user of ["alice", "bob", "CN=client"]) await cluster.allow(user, write);
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  const arrives = async (listener: KafkaListener, value: string, options: ClientOptions) => {
    await sendMessage(cluster.addresses(listener), "in", value, { retries, ...options });
    expect(await valuesIn(cluster)).toContain(value);
  };
  /** For a reason that has `code` somewhere below the error that is thrown. */
  const isRefused = async (listener: KafkaListener, options: ClientOptions, code: string) => {
    const sent = sendMessage(cluster.addresses(listener), "in", "refused", { retries, ...options });
    const error: unknown = await sent.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect([...errorCodes(error)]).toContain(code);
    expect(await valuesIn(cluster)).not.toContain("refused");
  };
  const sasl = (mechanism: (typeof mechanisms)[number], password = users.alice) => ({
    sasl: { mechanism, username: "alice", password },
  });
  const tls = () => ({ tls: { ca: cluster.authority.root } });

  for (const mechanism of mechanisms) {
    test(`${mechanism} lets in who knows the password, and nobody else`, async () => {
      await arrives("SASL_PLAINTEXT", `${mechanism}, plain`, sasl(mechanism));
      await arrives("SASL_SSL", `${mechanism}, TLS`, { ...sasl(mechanism), ...tls() });
      await isRefused("SASL_PLAINTEXT", sasl(mechanism, "wrong"), "SASL_AUTHENTICATION_FAILED");
      await isRefused("SASL_SSL", { ...sasl(mechanism, "wrong"), ...tls() }, "SASL_AUTHENTICATION_FAILED");
    });
  }

  test("TLS shows a certificate of the authority; who requires client certificates lets in nobody else", async () => {
    const { certificate: cert, key } = cluster.authority.issue({ commonName: "client" });
    await arrives("MTLS", "mutual TLS", { tls: { ca: cluster.authority.root, cert, key } });
    await isRefused("MTLS", tls(), "PLT_KFK_NETWORK");
    await isRefused("SSL", { tls: {} }, "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
    await arrives("SSL", "TLS", tls());
  });

  test("an authorization that is withdrawn is missed at once; a password can change", async () => {
    const bob = (password: string) => ({
      sasl: { mechanism: "SCRAM-SHA-512" as const, username: "bob", password },
    });
    await cluster.setPassword("bob", "first");
    await arrives("SASL_PLAINTEXT", "by bob", bob("first"));
    await cluster.setPassword("bob", "second");
    await isRefused("SASL_PLAINTEXT", bob("first"), "SASL_AUTHENTICATION_FAILED");
    await arrives("SASL_PLAINTEXT", "by bob again", bob("second"));
    await cluster.withdraw("bob");
    await isRefused("SASL_PLAINTEXT", bob("second"), "TOPIC_AUTHORIZATION_FAILED");
  });
});
