// What a transaction's timeout comes to beside the brokers' own settings.

import { describe, expect, test } from "bun:test";
import { resolveSink } from "../../../../src/connector/request/resolve-connector.ts";
import type { ClusterFacts } from "../../../../src/sink/kafka/checks/cluster-facts.ts";
import { transactionChecks } from "../../../../src/sink/kafka/checks/setting-findings.ts";
import { producingSettings } from "../../../../src/sink/kafka/kafka-settings.ts";

function timeoutFinding(timeoutMs: number, brokerSettings: Readonly<Record<string, string>> | null) {
  const transactions = { enabled: true, timeout_ms: timeoutMs };
  const connection = { brokers: ["localhost:9092"], config: { transactions } };
  const { kafka } = resolveSink({ kafka: { connection, format: { native: {} }, topic_options: {} } }, null);
  const facts: ClusterFacts = {
    features: { metadataVersion: null, newest: new Map() },
    brokers: [{ host: "localhost", port: 9092 }],
    checkpoints: {
      name: "millrace.checkpoints",
      presence: "missing",
      replicas: 0,
      mayRead: null,
      mayWrite: null,
    },
    topics: [],
    brokerSettings: brokerSettings && new Map(Object.entries(brokerSettings)),
    topicSettings: new Map(),
  };
  const [, , find] = transactionChecks.find(([name]) => name === "Transaction timeout")!;
  return find(producingSettings(kafka!, "orders"), facts);
}

const allowed = { "transaction.max.timeout.ms": "900000" };
const byDefault = { ...allowed, "broker.session.timeout.ms": "9000", "replica.lag.time.max.ms": "30000" };

describe("transactions.timeout_ms", () => {
  test("goes together with the defaults of brokers", () => {
    expect(timeoutFinding(60_000, byDefault)).toEqual({ type: "passed" });
    expect(timeoutFinding(9_001, byDefault)).toEqual({ type: "passed" });
  });

  test("is to be longer than brokers take to miss a dead one, by whichever setting is shorter", () => {
    expect(timeoutFinding(9_000, byDefault)).toMatchObject({
      type: "warned",
      message: expect.stringContaining("Set transactions.timeout_ms above 9000."),
    });
    const quick = { ...byDefault, "replica.lag.time.max.ms": "2000" };
    expect(timeoutFinding(3_001, quick)).toEqual({ type: "passed" });
    expect(timeoutFinding(2_000, quick)).toMatchObject({
      message: expect.stringContaining("take up to 3000 ms"),
    });
  });

  test("is not held against settings that brokers do not tell", () => {
    expect(timeoutFinding(2_000, allowed)).toEqual({ type: "passed" });
    // Of ZooKeeper's time: leaders alone miss a replica.
    expect(timeoutFinding(30_000, { ...allowed, "replica.lag.time.max.ms": "30000" })).toMatchObject({
      message: expect.stringContaining("above 45000"),
    });
    expect(timeoutFinding(60_000, null).type).toBe("skipped");
  });

  test("is to be at most what they allow", () => {
    expect(timeoutFinding(900_001, byDefault)).toMatchObject({
      type: "failed",
      reason: expect.stringContaining("set it to 900000 or less"),
    });
  });
});
