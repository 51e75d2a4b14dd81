// What a patch does to a Kafka sink, and what it may not change.

import { describe, expect, test } from "bun:test";
import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import type { JsonObject } from "../../../src/connector/request/merge-patch.ts";
import { patchConnector } from "../../../src/connector/request/patch-connector.ts";
import { removedSettings } from "../../../src/connector/request/removed-settings.ts";
import { resolveGiven } from "../../../src/connector/request/resolve-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { kafkaSinkSample, requestSample } from "../samples.ts";

const brokers = ["a.internal:9092", "b.internal:9092"];
const given = (overrides: object = {}) =>
  resolveGiven(requestSample({ sink: kafkaSinkSample({ connection: { brokers }, ...overrides }) }), {
    id: "orders",
    stored: null,
  });
const withConfig = (config: object) => given({ connection: { brokers, config } });
const patched = (before: ConnectorRequest, kafka: JsonObject) => patchConnector(before, { sink: { kafka } });
const full = (connector: ConnectorRequest): ConnectorConfig => completeConnector(connector, "orders");
const config = (connector: ConnectorRequest) => full(connector).sink.kafka!.connection.config;

function refusal(before: ConnectorRequest, kafka: JsonObject): { code: string; paths: string[] } {
  try {
    patched(before, kafka);
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    const paths = error.violations.map(({ path }) => path.replace("/sink/kafka", ""));
    return { code: error.code, paths };
  }
  throw new Error("nothing was refused");
}

describe("immutable are", () => {
  const immutable = (path: string) => ({ code: "immutable_field", paths: [path] });
  const id = "/connection/config/transactions/transactional_id";
  const named = (transactional_id: string | null): JsonObject => ({
    connection: { config: { transactions: { transactional_id } } },
  });
  const chosen = () => withConfig({ transactions: { enabled: true, transactional_id: "own" } });

  test("the brokers", () => {
    expect(patched(given(), { connection: { brokers } })).toEqual(given());
    expect(refusal(given(), { connection: { brokers: ["c.internal:9092"] } })).toEqual(
      immutable("/connection/brokers"),
    );
  });

  test("the name", () => {
    expect(refusal(given(), { name: "shop" })).toEqual(immutable("/name"));
    expect(refusal(given({ name: "shop" }), { name: null })).toEqual(immutable("/name"));
    expect(patched(given({ name: "shop" }), { name: "shop" })).toEqual(given({ name: "shop" }));
  });

  test("the transactional id, also one that is not given", () => {
    expect(refusal(chosen(), named("other"))).toEqual(immutable(id));
    expect(refusal(chosen(), named(null))).toEqual(immutable(id));
    expect(refusal(chosen(), { connection: { config: { transactions: null } } })).toEqual(immutable(id));
    expect(refusal(given(), named("other"))).toEqual(immutable(id));
    expect(config(patched(given(), named("millrace-orders"))).transactions).toMatchObject({
      enabled: true,
      transactional_id: "millrace-orders",
    });
  });

  test("the kind", () => {
    const run = () => patchConnector(given(), { sink: { webhook: { url: "http://h" }, kafka: null } });
    expect(run).toThrow(expect.objectContaining({ code: "immutable_field" }));
  });
});

describe("settings that others decide", () => {
  test("transactions stay on when a part of them is set", () => {
    const changed = patched(given(), { connection: { config: { transactions: { timeout_ms: 5000 } } } });
    expect(config(changed).transactions).toMatchObject({ enabled: true, timeout_ms: 5000 });
    const off = withConfig({ transactions: { enabled: false } });
    const still = patched(off, { connection: { config: { transactions: { timeout_ms: 5000 } } } });
    expect(config(still).transactions.enabled).toBe(false);
    // The checkpoint is elsewhere without them.
    for (const [before, transactions] of [
      [off, null],
      [given(), { enabled: false }],
    ] as const) {
      const turn = () => patched(before, { connection: { config: { transactions } } });
      expect(turn).toThrow("cannot change in place");
    }
  });

  test("another preset brings its own defaults, and leaves what was given", () => {
    const before = withConfig({ producer_preset: "LowLatency", compression_type: "Zstd" });
    const changed = patched(before, { connection: { config: { producer_preset: "Throughput" } } });
    expect(config(changed)).toMatchObject({ linger_ms: 250, compression_type: "Zstd" });
    const plain = patched(before, { connection: { config: { producer_preset: null, batch_size: 5 } } });
    expect(config(plain)).toMatchObject({ linger_ms: 100, compression_type: "Zstd", batch_size: 5 });
    const both = patched(before, { connection: { config: { producer_preset: "None", linger_ms: 5 } } });
    expect(config(both).linger_ms).toBe(5);
  });
});

test("a log-in is taken out with what belongs to it", () => {
  const logIn = { protocol: "SaslSsl", mechanism: "Plain", username: "u", password: "p" };
  const before = given({ connection: { brokers, auth: logIn } });
  const auth = { protocol: "Ssl", mechanism: null, username: null };
  expect(refusal(before, { connection: { auth } })).toEqual({
    code: "invalid_request",
    paths: ["/connection/auth/password"],
  });
  const changed = full(patched(before, { connection: { auth: { ...auth, password: null } } }));
  expect(changed.sink.kafka?.connection.auth).toEqual({ protocol: "Ssl" });
  expect(refusal(before, { connection: { auth: { password: null } } })).toEqual({
    code: "missing_secret",
    paths: ["/connection/auth/password"],
  });
  const kept = full(patched(before, { connection: { auth: { username: "other" } } }));
  expect(kept.sink.kafka?.connection.auth).toEqual({ ...logIn, username: "other" } as never);
});

test("a replaced list keeps the values of the keys that it still has, and what is gone is told by its key", () => {
  const properties = [
    { key: "linger.ms", value: "5" },
    { key: "batch.size", value: "7" },
  ];
  const before = withConfig({ producer_properties: properties });
  const after = patched(before, { connection: { config: { producer_properties: [{ key: "batch.size" }] } } });
  expect(config(after).producer_properties).toEqual([{ key: "batch.size", value: "7" }]);
  const forms = (connector: ConnectorRequest) => ({ given: connector, config: full(connector) });
  expect(removedSettings(forms(before), forms(after))).toEqual([
    "sink.kafka.connection.config.producer_properties[linger.ms]",
  ]);
});
