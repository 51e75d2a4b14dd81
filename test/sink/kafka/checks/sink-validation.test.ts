// The checks of a Kafka sink where no broker is there: what they tell, in which form, and in time. test/kafka/validation.ts has brokers.

import { expect, test } from "bun:test";
import { type AddressInfo, createServer } from "node:net";
import { Value } from "@sinclair/typebox/value";
import type { KafkaSinkRequest } from "../../../../src/connector/config/kafka-config.ts";
import { resolveSink } from "../../../../src/connector/request/resolve-connector.ts";
import { ValidateEventSchema } from "../../../../src/connector/validation.ts";
import { freePort } from "../../../../src/demo/free-port.ts";
import { validateSink } from "../../../../src/sink/registry.ts";
import { findTest, outline } from "../../../support/api/validation-events.ts";

async function validate(port: number, auth: KafkaSinkRequest["connection"]["auth"] = {}) {
  const connection = { brokers: [`127.0.0.1:${port}`], auth };
  const sink = resolveSink({ kafka: { connection, format: { native: {} }, topic_options: {} } }, null);
  const events = await validateSink(sink, new AbortController().signal);
  for (const event of events) expect(Value.Check(ValidateEventSchema, event)).toBeTrue();
  return events;
}

const skipped = [
  ...["Authentication", "ServerInfo", "Permission Topics", "Permission Transactional id"],
  ...["Permission Checkpoints", "Config Brokers", "Config Replication", "Config In-sync replicas"],
  ...["Config Message size", "Config Batch size", "Config Transaction timeout", "Config Checkpoint topic"],
].map((name) => `${name}: Skipped`);

test("nobody listens: the rest is skipped, for that reason", async () => {
  const port = await freePort();
  const events = await validate(port);
  const reason = `No connection to broker 127.0.0.1:${port}: ECONNREFUSED. Is it running, and reachable from here?`;
  expect(outline(events)).toEqual([
    ...["start", "DnsResolution: Success", "Reachability: Failed", "TLS: Skipped"],
    ...[...skipped, `failed: ${reason}`],
  ]);
  expect(findTest(events, "Config Brokers").status.Skipped).toEqual({ reason });
});

test("who accepts and says nothing is found within 10 s, with TLS and without", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  const { port } = server.address() as AddressInfo;
  const began = performance.now();
  const [plain, secure] = await Promise.all([validate(port), validate(port, { protocol: "Ssl" })]);
  server.close();
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(findTest(plain, "TLS").status.Failed?.reason).toContain("takes the connection, and does not answer");
  expect(findTest(secure, "TLS").status.Failed?.reason).toContain("no answer in time");
}, 15_000);

test("a file of certificates that cannot be read is named", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  const { port } = server.address() as AddressInfo;
  const events = await validate(port, { protocol: "Ssl", ssl_ca_location: "/nowhere/ca.pem" });
  server.close();
  expect(findTest(events, "TLS").status.Failed?.reason).toContain("the file /nowhere/ca.pem cannot be read");
});

test("the signal ends it with its reason", async () => {
  const connection = { brokers: [`127.0.0.1:${await freePort()}`] };
  const sink = resolveSink({ kafka: { connection, format: { native: {} }, topic_options: {} } }, null);
  expect(validateSink(sink, AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
});

test("a broker at a cloud's metadata service is not connected to", async () => {
  const connection = { brokers: ["169.254.169.254:9092"] };
  const sink = resolveSink({ kafka: { connection, format: { native: {} }, topic_options: {} } }, null);
  const events = await validateSink(sink, new AbortController().signal);
  const { reason } = findTest(events, "DnsResolution").status.Failed!;
  expect(reason).toContain("Broker 169.254.169.254:9092 is not connected to");
  expect(reason).toContain("169.254.169.254 is link-local");
});
