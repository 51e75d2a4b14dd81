// Without transactions, over a producer that reaches no broker: the checkpoint moves past messages that are of no row, too, once brokers
// have taken them.

import { afterEach, beforeEach, expect, mock, spyOn, test } from "bun:test";
import type { ChangeBatch } from "../../../src/change/change-batch.ts";
import { reachOf } from "../../../src/change/checkpoint.ts";
import type { Lsn } from "../../../src/change/lsn.ts";
import { AddressResolver } from "../../../src/connection/egress.ts";
import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import { DeliverySession } from "../../../src/sink/delivery/delivery-session.ts";
import { LineServer } from "../../../src/sink/delivery/line/line-server.ts";
import { createMessageSink } from "../../../src/sink/delivery/message-sink.ts";
import { parkingStoreOf } from "../../../src/sink/delivery/parking/parking-store.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { kafkaTransport } from "../../../src/sink/kafka/kafka-transport.ts";
import { ProducerSession } from "../../../src/sink/kafka/produce/producer-session.ts";
import { PartitionQueue, type Round } from "../../../src/sink/kafka/produce/round.ts";
import { TopicQueues } from "../../../src/sink/kafka/topic-queues.ts";
import type { CheckpointStore, Sink } from "../../../src/sink/sink.ts";
import { sampleConfig, sampleRequest } from "../../support/api/sample-connector.ts";
import { eventsTo, nothingTold, type Told } from "../../support/contract/bench.ts";
import { openOrBegin } from "../../support/contract/carrying.ts";
import { accounts, insert, update } from "../../support/contract/history.ts";
import { batches, transaction } from "../../support/rows/batch-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";
import { MemoryParking } from "../../support/webhook/memory-parking.ts";
import { withSave } from "../../support/webhook/memory-record.ts";

/** Inserted rows are not sent. */
const debezium = { emit_tx_metadata: true, skipped_operations: "c" };
const inserts = transaction(1, [insert(accounts, 1), insert(accounts, 2)]);
const updates = transaction(1, [update(1, "a"), update(2, "b")]);

let stack: AsyncDisposableStack;
let told: Told;
let sink: Sink;
/** They outlive a session. */
let record: SavedRecord | null;
let parking: MemoryParking;
/** Messages of each round that was sent, by topic. */
let rounds: Readonly<Record<string, number>>[];
/** Rounds are taken once it has resolved. */
let gate: PromiseWithResolvers<void>;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  stack.defer(() => void mock.restore());
  rounds = [];
  gate = Promise.withResolvers();
  record = null;
  parking = new MemoryParking();
  spyOn(ProducerSession.prototype, "begin").mockImplementation(async () => {});
  spyOn(TopicQueues.prototype, "prepare").mockImplementation(async () => {});
  spyOn(TopicQueues.prototype, "of").mockImplementation(async (topic) => [new PartitionQueue(topic, 0)]);
  spyOn(ProducerSession.prototype, "send").mockImplementation(async ({ batches: sent }: Round) => {
    const ofTopics = [...sent].map(([{ topic }, some]) => [
      topic,
      some.reduce((sum, { count }) => sum + count, 0),
    ]);
    if (ofTopics.length > 0) rounds.push(Object.fromEntries(ofTopics));
    await gate.promise;
  });
  sink = live();
  await openOrBegin(sink);
  await sink.prepare([accounts], ["text"]);
});

afterEach(async () => {
  gate.resolve();
  await stack.disposeAsync();
});

/** A session. */
function live(): Sink {
  const kafka = {
    connection: { brokers: ["127.0.0.1:1"], config: { transactions: { enabled: false } } },
    format: { debezium },
    topic_options: {},
    on_exhausted: { park: {} },
  };
  const limits = { cdc: { flush_interval_ms: 5 } };
  const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka }, limits }));
  const monotonic = () => performance.now();
  const counts = { sent() {}, committed() {}, retried() {} };
  const resolver = new AddressResolver("default");
  const place = { connectorId: "rig", store: parkingStoreOf(async (call) => parking.answer(call)) };
  const save: CheckpointStore["save"] = async (text, parts) => {
    record = withSave(record, text, parts);
  };
  const tools = {
    transport: kafkaTransport(settings, "run", {
      monotonic,
      nowMs: Date.now,
      resolver,
      counts,
      parking: place,
    }),
    store: { load: async () => record, save },
    log: () => {},
    monotonic,
  };
  const { port1, port2 } = new MessageChannel();
  const server = new LineServer(port2, (send) => new DeliverySession(settings.delivery, tools, send));
  told = nothingTold();
  const { signal } = new AbortController();
  const made = createMessageSink({ signal, makesCopies: true, events: eventsTo(told, () => {}) }, port1);
  stack.defer(() => port1.close());
  stack.defer(() => server.close());
  return stack.use(made);
}

const reached = (): Lsn | undefined => told.durable.at(-1)?.checkpoint.resumeLsn;

/** What was written is sent, and the checkpoint moves to `to` once it is taken. */
async function expectWaiting(sent: Readonly<Record<string, number>>, to: Lsn): Promise<void> {
  await waitFor("a round", () => rounds.length > 0, { timeoutMs: 5_000 });
  await Bun.sleep(50);
  expect(rounds[0]).toEqual(sent);
  expect(reached()).not.toBe(to);
  gate.resolve();
  await waitFor("the checkpoint", () => reached() === to, { timeoutMs: 5_000 });
}

test("of a transaction none of whose rows is sent, its beginning and its end are waited for", async () => {
  const [batch] = batches([inserts]);
  await sink.write(batch!);
  await expectWaiting({ transaction: 2 }, inserts.endLsn);
});

test.each([
  ["its last change", inserts, {}],
  ["the rows of its last change", updates, {}],
] as const)(
  "the end of a transaction that is known behind %s is sent and waited for, though nothing follows",
  async (_, whole) => {
    const [beginning, rest] = batches([whole], { perBatch: 1 });
    await sink.write(beginning!);
    gate.resolve();
    await sink.flush();
    await waitFor("a round", () => rounds.length > 0, { timeoutMs: 5_000 });
    await Bun.sleep(50);
    rounds.length = 0;
    gate = Promise.withResolvers();
    const nothing: ChangeBatch = { ...rest!, count: 0 };
    await sink.write(nothing);
    await expectWaiting({ transaction: 1 }, whole.endLsn);
  },
);

test("what is parked beyond the checkpoint is covered by how far the sink may have received changes, until it is discarded", async () => {
  const [batch] = batches([transaction(1, [update(1, "a"), update(2, "large".repeat(400_000))])]);
  await sink.write(batch!);
  await waitFor("the parked row", () => parking.parked.length === 1, { timeoutMs: 5_000 });
  const before = record;
  await sink[Symbol.asyncDispose]();
  // As where the service dies.
  record = before;
  const reach = async () => reachOf((await live().open())!);
  expect(await reach()).toBeGreaterThan(updates.commitLsn);
  parking.discard(parking.parked[0]!.message.id);
  expect(await reach()).toBeLessThan(updates.commitLsn);
});
