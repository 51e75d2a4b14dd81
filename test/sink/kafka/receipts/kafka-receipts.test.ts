// Receipts of messages without transactions: they are there once brokers have the messages, and in the same save as the record.

import { beforeEach, expect, test } from "bun:test";
import type { ReceiptBatches } from "../../../../src/connector/receipts.ts";
import { PartitionQueue } from "../../../../src/sink/kafka/produce/round.ts";
import { KafkaReceipts } from "../../../../src/sink/kafka/receipts/kafka-receipts.ts";
import { ordersTable, plannedRow } from "../../../support/kafka/planned-rows.ts";
import { MemoryReceipts } from "../../../support/webhook/memory-receipts.ts";

const question = { schema: "public", name: "orders", key: ["1"] };

let stored: MemoryReceipts;
let receipts: KafkaReceipts;
const queue = new PartitionQueue("orders", 0);
/** A round that is sent waits for what it is told. */
let rounds: PromiseWithResolvers<void>[];

beforeEach(() => {
  stored = new MemoryReceipts();
  rounds = [];
  const log = {
    seal: () => {
      const round = Promise.withResolvers<void>();
      rounds.push(round);
      return round.promise;
    },
    waitFor: () => {},
  };
  const state = {
    load: async () => null,
    save: async (_text: string, _parts: unknown, batches: ReceiptBatches = new Map()) => stored.add(batches),
  };
  const place = { maxAgeMs: 1e9, maxBytes: 1e9, ask: async () => {}, nowMs: () => 5 };
  receipts = new KafkaReceipts({ place, isTransactional: false, state, log, monotonic: () => 7 });
  receipts.saveBy(() => receipts.record.save("{}"));
});

test("a message has a receipt once brokers have it and the record is saved", async () => {
  receipts.add(ordersTable, plannedRow(1), queue);
  queue.added++;
  const sealed = receipts.seal();
  await receipts.saved();
  expect(stored.list()).toEqual([]);
  expect(receipts.find(question)).toMatchObject([{ state: "Sending", last_change: { op: "c" } }]);
  queue.offsets.took(1, 40);
  rounds[0]!.resolve();
  await sealed;
  expect(stored.list()).toEqual([]);
  await receipts.saved();
  expect(stored.list()).toMatchObject([{ topic: "orders", outcome: "delivered", attempts: 1 }]);
  expect(Array.from(stored.list()[0]!.rows.offsets ?? [])).toEqual([40]);
  expect(receipts.find(question)).toEqual([]);
  await receipts.close();
});

test("a message that no broker has taken has none", async () => {
  receipts.add(ordersTable, plannedRow(1), queue);
  const sealed = receipts.seal();
  rounds[0]!.reject(new Error("the session is over"));
  await expect(sealed).rejects.toThrow("the session is over");
  await receipts.saved();
  await receipts.close();
  expect(stored.list()).toEqual([]);
});
