// What is read to explain a row, and how far back that is said to go, over a state that is made by hand.

import { expect, test } from "bun:test";
import { lsn } from "../../src/change/lsn.ts";
import { StoredExplainService } from "../../src/runtime/explain/explain-service.ts";
import { textsDigest } from "../../src/sink/delivery/receipts/key-digest.ts";
import { ReceiptBook } from "../../src/sink/delivery/receipts/receipt-book.ts";
import { ReceiptRows } from "../../src/sink/delivery/receipts/receipt-rows.ts";
import type { FoundBatch } from "../../src/state/stores/receipt-store.ts";
import { sampleConfig } from "../support/api/sample-connector.ts";

const nowMs = Date.parse("2026-02-01T12:00:00Z");
const hourMs = 3_600_000;
const request = { schema: "public", name: "orders", key: { id: 7 } };

/** Of `changes` of the row 7 in one request. */
function bodyOf(changes: number): Uint8Array {
  const { hash, check } = textsDigest(["7"]);
  const rows = new ReceiptRows(false);
  for (let i = 0; i < changes; i++) {
    rows.addRow(hash, check, 1);
    rows.addToRun(lsn(BigInt(i + 1)), nowMs * 1000);
  }
  const book = new ReceiptBook({ nowMs: () => nowMs, newId: () => "id", withinMs: 60_000 });
  const facts = { schema: "public", table: "orders", key: Bun.randomUUIDv7(), outcome: "delivered" as const };
  book.add({ ...facts, attempts: 1, status: 200, ms: 3, firstAtMs: nowMs, lastAtMs: nowMs, rows });
  return book.take().get("id")!.body;
}

const here = { holds: true, stopped: false };

function service(
  batches: readonly FoundBatch[],
  hours: number,
  oldestMs: number | null = null,
  { holds, stopped } = here,
) {
  const { sink, limits, ...config } = sampleConfig("c");
  const { postgres: _, ...others } = sink;
  const webhook = { ...others, webhook: {} };
  const key = [{ name: "id", typeOid: 20, typeName: "bigint" }];
  const state = {
    connectors: {
      get: async () => ({
        config: { ...config, sink: webhook, limits: { ...limits, receipts_hours: hours } },
        runId: "run",
        stopped,
      }),
    },
    receipts: {
      tables: async () => [{ schema: "public", name: "orders", key }],
      search: async () => batches,
      oldestMs: async () => oldestMs,
    },
    parked: { ofKey: async () => [] },
  };
  const connectors = { tables: async () => [] };
  const supervisor = { findRow: async () => null, holds: () => holds };
  const statuses = { status: () => ({ state: "Running", replica: holds ? "a" : "b" }) };
  const context = { state, supervisor, statuses, connectors, nowMs: () => nowMs };
  return new StoredExplainService(
    context as unknown as ConstructorParameters<typeof StoredExplainService>[0],
  );
}

test("of a row that changes all the time no more batches are unpacked than are shown", async () => {
  let unpacked = 0;
  const body = bodyOf(60);
  const batches = Array.from({ length: 20 }, (_, i) => ({
    id: String(i),
    get body() {
      unpacked++;
      return body;
    },
  }));
  const { deliveries } = await service(batches, 24).explain("c", request);
  expect(deliveries.length).toBe(100);
  expect(unpacked).toBe(2);
});

test("receipts go back to the oldest, but no further than they are looked for", async () => {
  const since = async (hours: number, oldestMs: number | null) =>
    (await service([], hours, oldestMs).explain("c", request)).receipts.since;
  expect(await since(24, nowMs - 2 * hourMs)).toBe("2026-02-01T10:00:00.000Z");
  expect(await since(1, nowMs - 2 * hourMs)).toBe("2026-02-01T11:00:00.000Z");
  expect(await since(0, nowMs - 2 * hourMs)).toBeNull();
  expect(await since(24, null)).toBeNull();
});

test("what another replica may be sending is not said to be delivered; a stopped connector sends nothing", async () => {
  const explained = async (at: typeof here) => {
    const { state, durable } = await service([{ id: "1", body: bodyOf(1) }], 24, null, at).explain(
      "c",
      request,
    );
    return [state, durable];
  };
  expect(await explained(here)).toEqual(["Delivered", true]);
  expect(await explained({ ...here, holds: false })).toEqual(["Unknown", false]);
  expect(await explained({ holds: false, stopped: true })).toEqual(["Delivered", true]);
});
