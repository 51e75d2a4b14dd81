// Messages that are sent again, over a producer that reaches no broker: they keep to the bound of all that wait for brokers, and stay parked
// where one refuses them.

import { afterEach, beforeEach, expect, type Mock, mock, spyOn, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import type { Transport } from "../../../../src/sink/delivery/transport.ts";
import { type KafkaSettings, kafkaSettings } from "../../../../src/sink/kafka/kafka-settings.ts";
import { kafkaTransport } from "../../../../src/sink/kafka/kafka-transport.ts";
import { ProducerLog } from "../../../../src/sink/kafka/produce/producer-log.ts";
import { ProducerSession } from "../../../../src/sink/kafka/produce/producer-session.ts";
import { PartitionQueue, type Round } from "../../../../src/sink/kafka/produce/round.ts";
import type { SenderEvents } from "../../../../src/sink/kafka/produce/round-sender.ts";
import { TopicQueues } from "../../../../src/sink/kafka/topic-queues.ts";
import { sampleConfig, sampleRequest } from "../../../support/api/sample-connector.ts";
import { batches, type FixtureChange, relation, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { allPassed } from "../../../support/webhook/parked-entry.ts";

const relationOfT = relation("t", [
  ["id", 23, "integer"],
  ["v", 25, "text"],
]);
const rows = 20;
const rowBytes = 1024 * 1024;

let parking: MemoryParking;
/** Codes of what ended sessions. */
let failures: string[];
const cluster = Object.getOwnPropertyDescriptor(ProducerSession.prototype, "cluster")!;
/** Brokers take messages once it has resolved. */
let gate: PromiseWithResolvers<void>;
let added: Mock<ProducerLog["add"]>;

beforeEach(() => {
  parking = new MemoryParking();
  failures = [];
  gate = Promise.withResolvers();
  const session = ProducerSession.prototype;
  spyOn(session, "begin").mockImplementation(async () => {});
  spyOn(session, "send").mockImplementation(() => gate.promise);
  // Where the record is.
  spyOn(session, "askAgain").mockImplementation(async <A>() => ({ partition: 0, stored: null }) as A);
  Object.defineProperty(session, "cluster", { ...cluster, get: () => ({ brokerCount: 1 }) });
  const queues = [new PartitionQueue("t", 0)];
  spyOn(TopicQueues.prototype, "of").mockImplementation(async () => queues);
  spyOn(TopicQueues.prototype, "ofTable").mockImplementation(async () => ({ topic: "t", queues }));
  added = spyOn(ProducerLog.prototype, "add");
});
afterEach(() => {
  mock.restore();
  Object.defineProperty(ProducerSession.prototype, "cluster", cluster);
});

function settingsOf(maxMessageBytes: number, onExhausted: object = { park: {} }) {
  const kafka = {
    connection: { brokers: ["127.0.0.1:1"], config: { message_max_bytes: maxMessageBytes } },
    format: { native: {} },
    topic_options: {},
    on_exhausted: onExhausted,
  };
  return kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
}

async function open(settings: KafkaSettings): Promise<Transport> {
  const transport = kafkaTransport(settings, "run", {
    monotonic: () => performance.now(),
    nowMs: Date.now,
    resolver: new AddressResolver("default"),
    parking: { connectorId: "rig", store: parkingStoreOf(async (call) => parking.answer(call)) },
    counts: { sent() {}, committed() {}, retried() {} },
  })(
    { retrying() {}, warning() {}, commit() {}, failed: ({ code }) => failures.push(code) },
    { load: async () => null, save: async () => {} },
  );
  await transport.store.load();
  return transport;
}

/** Parks so many rows, in a session of its own. */
async function park(count: number): Promise<void> {
  const settings = settingsOf(10_000);
  const transport = await open(settings);
  const table = await transport.compile(relationOfT);
  const planned = new ChangeRows(1, settings.encoding, [], null);
  const outlet = transport.stream({
    sent: () => () => {},
    save: async () => {},
    reach() {},
    failed() {},
  });
  const after = (id: number) => [String(id), "x".repeat(rowBytes)];
  const changes = Array.from(
    { length: count },
    (_, id): FixtureChange => ({ kind: "insert", relation: relationOfT, after: after(id) }),
  );
  const from = { resumeLsn: lsn(1n), partial: null, lastVersion: 1n };
  for (const batch of batches([transaction(1, changes)], { from }))
    for (let i = 0; i < batch.count; i++) planned.add(batch, i, table, outlet);
  await waitFor("all to be parked", () => parking.parked.length === count, { timeoutMs: 5_000 });
  await end(transport);
  expect(added).not.toHaveBeenCalled();
}

async function end(transport: Transport): Promise<void> {
  await transport.drain(AbortSignal.abort());
  await transport.close();
}

test("what is sent again waits for brokers as rows of the stream do", async () => {
  await park(rows);
  parking.ask();
  const wide = await open(settingsOf(2 * rowBytes));
  wide.passed?.(allPassed, false);
  // One row is more than gathers for a first transaction.
  await waitFor("the log to be full", () => added.mock.calls.length >= 1, { timeoutMs: 5_000 });
  await Bun.sleep(50);
  expect(added.mock.calls.length).toBeLessThan(3);
  gate.resolve();
  await waitFor("all", () => added.mock.calls.length === rows, { timeoutMs: 5_000 });
  await end(wide);
});

test.each([[{ park: {} }], [{ stop: {} }]])(
  "what is sent again and refused by a broker stays parked, with why, and ends no run, with %j",
  async (onExhausted) => {
    await park(1);
    parking.ask();
    spyOn(ProducerSession.prototype, "send").mockImplementation(async function (
      this: ProducerSession,
      { batches: sent }: Round,
    ) {
      const { events } = this as unknown as { readonly events: SenderEvents };
      for (const [batch] of sent.values()) await events.tooLarge?.(batch!.firstRow, "why");
      throw new MillraceError("kafka_message_too_large", "why");
    });
    const session = await open(settingsOf(2 * rowBytes, onExhausted));
    session.passed?.(allPassed, false);
    await waitFor("the message", () => added.mock.calls.length === 1, { timeoutMs: 5_000 });
    await session.store.save("{}").catch(() => undefined);
    expect(failures).toEqual(["sink_connection_lost"]);
    expect(parking.parked.map(({ attempts }) => attempts.at(-1)?.error)).toEqual(["why"]);
    await end(session);
  },
);
