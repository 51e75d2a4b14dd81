// Which changes of a connector make it start over.

import { expect, test } from "bun:test";
import { leavesCheckpoint, needsFreshStart } from "../../../src/runtime/run/fresh-start.ts";
import { sampleConfig, sampleRequest, sampleWebhookRequest } from "../../support/api/sample-connector.ts";

const before = sampleConfig("orders");

test("another password, name or selection continues from the checkpoint", () => {
  const request = structuredClone(sampleRequest());
  const source = request.source.postgres;
  if (!source) throw new Error("no source");
  source.connection.password = "another";
  source.connection.user = "another";
  source.catalog = { default_action: "Exclude" };
  expect(needsFreshStart(before, sampleConfig("orders", { ...request, name: "Orders" }))).toBe(false);
});

test("another database at either end, or another kind of sink, starts over", () => {
  const otherSource = structuredClone(sampleRequest());
  if (otherSource.source.postgres) otherSource.source.postgres.connection.database = "other";
  const otherSink = structuredClone(sampleRequest());
  if (otherSink.sink.postgres) otherSink.sink.postgres.connection.host = "other";
  for (const request of [otherSource, otherSink, sampleWebhookRequest()]) {
    expect(needsFreshStart(before, sampleConfig("orders", request))).toBe(true);
  }
});

test("another webhook URL continues with the next change", () => {
  const request = structuredClone(sampleWebhookRequest());
  if (request.sink.webhook) request.sink.webhook.url = "http://127.0.0.1:2";
  const webhook = sampleConfig("hook", sampleWebhookRequest());
  expect(needsFreshStart(webhook, sampleConfig("hook", request))).toBe(false);
});

test("other brokers, or another name at them, start over; the order of brokers and their case do not count", () => {
  const kafka = (brokers: string[], more: object = {}) => ({
    ...sampleRequest(),
    sink: { kafka: { connection: { brokers }, format: { native: {} }, topic_options: {}, ...more } },
  });
  const config = (...sink: Parameters<typeof kafka>) => sampleConfig("orders", kafka(...sink));
  const one = config(["a:9092", "B:9092"]);
  expect(needsFreshStart(one, config(["b:9092", "a:9092"]))).toBe(false);
  expect(needsFreshStart(one, config(["a:9092", "b:9092"], { topic_name_template: "{table}" }))).toBe(false);
  expect(needsFreshStart(one, config(["a:9092"]))).toBe(true);
  expect(needsFreshStart(one, config(["a:9092", "b:9092"], { name: "shop" }))).toBe(true);
  const transactions = (of: object) =>
    config(["a:9092", "b:9092"], {
      connection: { brokers: ["a:9092", "b:9092"], config: { transactions: of } },
    });
  expect(needsFreshStart(one, transactions({ enabled: true, timeout_ms: 30_000 }))).toBe(false);
  for (const other of [{ enabled: true, transactional_id: "another" }, { enabled: false }]) {
    expect(needsFreshStart(one, transactions(other))).toBe(true);
    expect(leavesCheckpoint(one, transactions(other))).toBe(true);
  }
  expect(needsFreshStart(before, one)).toBe(true);
});
