// What the outlets of a transport of requests wait for, beside the receiver.

import { expect, test } from "bun:test";
import { RequestTransport } from "../../../../src/sink/delivery/order/request-transport.ts";
import { Scheduler } from "../../../../src/sink/delivery/order/scheduler.ts";
import { ReceiptKeeping } from "../../../../src/sink/delivery/receipts/receipt-keeping.ts";
import { ReceiptRows } from "../../../../src/sink/delivery/receipts/receipt-rows.ts";
import { ReceiptedRequests } from "../../../../src/sink/delivery/receipts/receipted-requests.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import { ordersTable, plannedRow } from "../../../support/kafka/planned-rows.ts";

const rows = new ReceiptRows(false);
const row = plannedRow(1);
for (let i = 0; i < 1_000_000; i++) rows.add(ordersTable, row);
const facts = { schema: "public", table: "orders", key: Bun.randomUUIDv7(), outcome: "delivered" } as const;
const times = { attempts: 1, status: 200, ms: 1, firstAtMs: 1, lastAtMs: 1 };

test.each([["the stream"], ["a copy that the stream waits for"], ["a copy beside the stream"]])(
  "%s waits while the state takes no receipts, and goes on once it does",
  async (what) => {
    const nothing = async () => {};
    const state = { load: async () => null, save: nothing };
    const keeping = new ReceiptKeeping({ maxAgeMs: 1e9, maxBytes: 1e9, ask: nothing, nowMs: () => 0 });
    const receipted = new ReceiptedRequests(keeping.book, () => 0);
    const scheduler = new Scheduler(
      async () => ({ kind: "delivered" }),
      {
        retriesExhausted: "webhook_retries_exhausted",
        maxInFlight: 8,
        maxRetryingPerTable: 1,
        retry: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs: 1, maxBackoffMs: 1 },
        maxBytes: 1e6,
        maxRequests: 40,
        maxRows: 1e6,
        monotonic: () => 0,
        sleep: nothing,
        random: () => 0,
      },
      { retrying: () => {}, failed: () => {} },
    );
    const encoding = {
      sends: () => true,
      transactions: null,
      compile: () => new NativeRowEncoder(ordersTable.relation, { placeholder: false }),
    };
    const batch = { maxRows: 2, maxBytes: 1e6, isBare: false };
    const transport = new RequestTransport({ batch, encoding }, scheduler, state, null, {
      keeping,
      receipted,
    });
    // The state takes none for now.
    const save = () => new Promise<void>(() => {});
    const sent = () => () => {};
    const stream = transport.stream({ sent, save, reach: () => {}, failed: () => {} });
    const isIncremental = what === "a copy beside the stream";
    const outlet =
      what === "the stream"
        ? stream
        : transport.chunk({ sent, isIncremental, maxRows: Number.POSITIVE_INFINITY });
    expect(outlet.hasCapacity).toBe(true);
    keeping.book.add({ ...facts, ...times, rows });
    expect(outlet.hasCapacity).toBe(false);
    let isFree = false;
    const free = outlet.untilCapacity().then(() => {
      isFree = true;
    });
    await Bun.sleep(5);
    expect(isFree).toBe(false);
    await transport.store.save("{}");
    await free;
    expect(outlet.hasCapacity).toBe(true);
    await transport.close();
  },
);
