// Over a producer that reaches no broker: a transaction gathers no more than can be sent in its time, as the way to the brokers may be slow.

import { expect, mock, spyOn, test } from "bun:test";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import type { SavedRecord } from "../../../../src/connector/saved-record.ts";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { DeliverySession } from "../../../../src/sink/delivery/delivery-session.ts";
import { LineServer } from "../../../../src/sink/delivery/line/line-server.ts";
import { createMessageSink } from "../../../../src/sink/delivery/message-sink.ts";
import { KafkaStore } from "../../../../src/sink/kafka/checkpoint/kafka-store.ts";
import { kafkaSettings } from "../../../../src/sink/kafka/kafka-settings.ts";
import { kafkaTransport } from "../../../../src/sink/kafka/kafka-transport.ts";
import { ProducerSession } from "../../../../src/sink/kafka/produce/producer-session.ts";
import { PartitionQueue, type Round } from "../../../../src/sink/kafka/produce/round.ts";
import { TopicQueues } from "../../../../src/sink/kafka/topic-queues.ts";
import { sampleConfig, sampleRequest } from "../../../support/api/sample-connector.ts";
import { eventsTo, nothingTold } from "../../../support/contract/bench.ts";
import { carry, openOrBegin, outcomeOf } from "../../../support/contract/carrying.ts";
import { accounts, insert } from "../../../support/contract/history.ts";
import { transaction } from "../../../support/rows/batch-fixture.ts";
import { withSave } from "../../../support/webhook/memory-record.ts";

const bytesPerMs = 4_000;
const timeoutMs = 500;
const rows = 1_000;
const kafka = {
  connection: {
    brokers: ["127.0.0.1:1"],
    config: { transactions: { enabled: true, timeout_ms: timeoutMs } },
  },
  format: { native: {} },
  topic_options: {},
};
const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));

test("a backlog over a slow way is committed in transactions that it has the time for", async () => {
  using _spies = { [Symbol.dispose]: () => void mock.restore() };
  let kept: SavedRecord | null = null;
  const commits: number[] = [];
  let open: { readonly begunMs: number; readonly messages: number } | null = null;
  spyOn(ProducerSession.prototype, "begin").mockImplementation(async () => {
    open = null;
  });
  spyOn(ProducerSession.prototype, "send").mockImplementation(
    async ({ bytes, messages, isCommit }: Round) => {
      const { begunMs, messages: before } = open ?? { begunMs: performance.now(), messages: 0 };
      open = { begunMs, messages: before + messages };
      const leftMs = begunMs + timeoutMs - performance.now();
      await Bun.sleep(Math.max(0, Math.min(bytes / bytesPerMs, leftMs)));
      if (bytes / bytesPerMs > leftMs)
        throw new MillraceError("sink_connection_lost", "It was open for too long.");
      if (!isCommit) return;
      commits.push(open.messages);
      open = null;
    },
  );
  spyOn(ProducerSession.prototype, "askAgain").mockImplementation((async () => ({
    partition: 0,
    stored: kept && { record: kept, run: "run", retried: [], receipts: null },
  })) as never);
  spyOn(TopicQueues.prototype, "prepare").mockImplementation(async () => {});
  spyOn(TopicQueues.prototype, "of").mockImplementation(async (topic) => [new PartitionQueue(topic, 0)]);
  const { save } = KafkaStore.prototype;
  spyOn(KafkaStore.prototype, "save").mockImplementation(async function (this: KafkaStore, text, parts) {
    await save.call(this, text, parts);
    kept = withSave(kept, text, parts);
  });
  const own = Object.getOwnPropertyDescriptor(ProducerSession.prototype, "cluster")!;
  const cluster = { topics: async () => new Map(), brokerCount: 1 };
  Object.defineProperty(ProducerSession.prototype, "cluster", { ...own, get: () => cluster });
  using _cluster = {
    [Symbol.dispose]: () => void Object.defineProperty(ProducerSession.prototype, "cluster", own),
  };

  const monotonic = () => performance.now();
  const resolver = new AddressResolver("default");
  const tools = {
    transport: kafkaTransport(settings, "run", {
      monotonic,
      nowMs: Date.now,
      resolver,
      counts: { sent() {}, committed() {}, retried() {} },
    }),
    store: { load: async () => null, save: async () => {} },
    log: () => {},
    monotonic,
  };
  const text = "x".repeat(8_000);
  const all = Array.from({ length: rows }, (_, i) => transaction(i + 1, [insert(accounts, i, text)]));
  let sessions = 0;
  for (let isOver = false; !isOver && sessions < 8; sessions++) {
    const { port1, port2 } = new MessageChannel();
    const server = new LineServer(port2, (send) => new DeliverySession(settings.delivery, tools, send));
    const { signal } = new AbortController();
    const context = { signal, makesCopies: false, events: eventsTo(nothingTold(), () => {}) };
    const sink = createMessageSink(context, port1);
    const work = async () => {
      const from = await openOrBegin(sink);
      await sink.prepare([accounts], ["text"]);
      await carry({ sink }, all, { from });
      await sink.flush();
    };
    isOver = (await outcomeOf("a session", work())) === null;
    await sink[Symbol.asyncDispose]();
    await server.close();
    port1.close();
  }
  expect(sessions).toBe(1);
  // Each row, and the record that goes with each commit.
  expect(commits.reduce((sum, messages) => sum + messages - 1, 0)).toBeWithin(rows, rows + 10);
});
