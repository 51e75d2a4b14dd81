// Receipts over both databases: stored with the record under its term, found by key, and removed by age and size.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { sql } from "drizzle-orm";
import { lsn } from "../../../src/change/lsn.ts";
import type { ParkedMessage } from "../../../src/connector/parking.ts";
import { noReceipts, type ReceiptBatches } from "../../../src/connector/receipts.ts";
import { textsDigest } from "../../../src/sink/delivery/receipts/key-digest.ts";
import { filterKey, filterProbes, tableHash } from "../../../src/sink/delivery/receipts/key-filter.ts";
import { decodeBody } from "../../../src/sink/delivery/receipts/receipt-body.ts";
import { ReceiptBook } from "../../../src/sink/delivery/receipts/receipt-book.ts";
import { ReceiptRows, rowsWith } from "../../../src/sink/delivery/receipts/receipt-rows.ts";
import type { Database } from "../../../src/state/database.ts";
import type { State } from "../../../src/state/open-state.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { testEveryDay } from "../../support/matrix.ts";
import { databaseKinds, StateOver } from "../../support/runtime/state-over.ts";

const table = tableHash("public", "orders");
const probesOf = (id: number) => filterProbes(filterKey(table, textsDigest([String(id)]).hash));

function bookAt(nowMs: () => number): ReceiptBook {
  return new ReceiptBook({ nowMs, newId: () => Bun.randomUUIDv7("hex", nowMs()), withinMs: 60_000 });
}

function add(book: ReceiptBook, ids: readonly number[], atMs: number): void {
  const rows = new ReceiptRows(false);
  for (const id of ids) {
    const { hash, check } = textsDigest([String(id)]);
    rows.addRow(hash, check, 0);
    rows.addToRun(lsn(BigInt(ids[0]!)), atMs * 1000);
  }
  const facts = { schema: "public", table: "orders", key: Bun.randomUUIDv7(), outcome: "delivered" as const };
  book.add({ ...facts, attempts: 1, status: 200, ms: 3, firstAtMs: atMs, lastAtMs: atMs, rows });
}

for (const kind of databaseKinds) {
  describe(`receipts over ${kind}`, () => {
    let over: StateOver;
    let state: State;

    beforeAll(async () => {
      over = await StateOver.start(kind);
      ({ state } = over);
    });
    afterAll(() => over[Symbol.asyncDispose]());

    async function connector(id: string) {
      await state.connectors.insert(storedConnector(id));
      const save = async (receipts: ReceiptBatches = noReceipts, term: number | null = null) =>
        await state.sinkRecords.save(id, "record", new Map(), term, receipts);
      const found = async (row: number, sinceMs = 0) => {
        const search = { probes: probesOf(row), sinceMs, before: null, limit: 1_000 };
        const batches = await state.receipts.search(id, search);
        const receipts = batches.flatMap(({ body }) => [...decodeBody(body)]);
        return receipts.filter(({ rows }) => rowsWith(rows, textsDigest([String(row)])).length > 0).length;
      };
      return { save, found };
    }

    test("they are stored with the record, and a batch that grows is one row", async () => {
      const { save, found } = await connector("grows");
      const book = bookAt(Date.now);
      for (const id of [1, 2, 3]) {
        add(book, [id, 100 + id], Date.now());
        const batches = book.take();
        await save(batches);
        book.saved(batches);
      }
      expect([await found(1), await found(103), await found(4)]).toEqual([1, 1, 0]);
      expect((await state.receipts.totals(null)).get("grows")).toBeLessThan(1_200);
      expect(book.take().size).toBe(0);
    });

    test("what a save that failed had is saved by the next one", async () => {
      const { save, found } = await connector("failed");
      const book = bookAt(Date.now);
      add(book, [1], Date.now());
      book.take();
      add(book, [2], Date.now());
      await save(book.take());
      expect([await found(1), await found(2)]).toEqual([1, 1]);
    });

    test("an older term stores none, and removes none", async () => {
      const { save, found } = await connector("fenced");
      const book = bookAt(Date.now);
      add(book, [1], Date.now());
      const lost = { code: "lease_lost" };
      await expect(save(book.take(), 3)).rejects.toMatchObject(lost);
      expect(await found(1)).toBe(0);
      await save(book.take());
      const prune = { kind: "prune", maxAgeMs: 0, maxBytes: 0 } as const;
      await expect(state.receipts.answer("fenced", prune, 3)).rejects.toMatchObject(lost);
      await expect(state.receipts.answer("fenced", { kind: "tables", tables: [] }, 3)).rejects.toMatchObject(
        lost,
      );
      expect(await found(1)).toBe(1);
    });

    test("saves under a term take receipts of several connectors at once", async () => {
      const one = await connector("term-a");
      const other = await connector("term-b");
      const { database } = state.parking as unknown as { readonly database: Database };
      await database.execute(
        sql`update millrace.leases set term = 4 where connector_id in ('term-a', 'term-b')`,
      );
      const [book, second] = [bookAt(Date.now), bookAt(Date.now)];
      add(book, [1], Date.now());
      add(second, [2], Date.now());
      await Promise.all([one.save(book.take(), 4), other.save(second.take(), 4)]);
      expect([await one.found(1), await other.found(2), await other.found(1)]).toEqual([1, 1, 0]);
    });

    test("what is too old goes, and what is too much, the oldest first", async () => {
      const { save, found } = await connector("pruned");
      const hour = 3_600_000;
      let nowMs = Date.now() - 10 * hour;
      const book = bookAt(() => nowMs);
      for (let id = 1; id <= 10; id++, nowMs += hour) {
        add(book, [id], nowMs);
        const batches = book.take();
        await save(batches);
        book.saved(batches);
      }
      const kept = async () => {
        const ids = Array.from({ length: 10 }, (_, i) => i + 1);
        const there = await Promise.all(ids.map(async (id) => ((await found(id)) > 0 ? [id] : [])));
        return there.flat();
      };
      const prune = (maxAgeMs: number, maxBytes: number) =>
        state.receipts.answer("pruned", { kind: "prune", maxAgeMs, maxBytes }, null);
      expect((await kept()).length).toBe(10);
      await prune(4.5 * hour, 1e9);
      expect(await kept()).toEqual([7, 8, 9, 10]);
      const bytes = (await state.receipts.totals(null)).get("pruned")!;
      await prune(100 * hour, bytes / 2 + 1);
      expect(await kept()).toEqual([9, 10]);
      await prune(0, 0);
      expect(await kept()).toEqual([]);
    });

    test("they go with their connector, and when it begins again", async () => {
      const { save, found } = await connector("gone");
      const book = bookAt(Date.now);
      const tables = [
        { schema: "public", name: "orders", key: [{ name: "id", typeOid: 20, typeName: "bigint" }] },
      ];
      await state.receipts.answer("gone", { kind: "tables", tables }, null);
      expect(await state.receipts.tables("gone")).toEqual(tables);
      add(book, [1], Date.now());
      await save(book.take());
      await state.receipts.remove("gone", null);
      expect([await found(1), await state.receipts.tables("gone")]).toEqual([0, null]);
      await save(book.take());
      expect(await found(1)).toBe(1);
      await state.connectors.remove("gone", null);
      expect(await found(1)).toBe(0);
    });

    test("what an ended run is still removing takes nothing of the next one", async () => {
      const { save, found } = await connector("again");
      const batch = {
        beganAtMs: Date.now(),
        requests: 1,
        body: new Uint8Array(9),
        filter: new Uint8Array(9),
      };
      const ids = Array.from({ length: 3_000 }, () => Bun.randomUUIDv7());
      await save(new Map(ids.map((id) => [id, { ...batch, id }])));
      const all = { kind: "prune", maxAgeMs: 0, maxBytes: 0 } as const;
      const removing = state.receipts.answer("again", all, null);
      const tables = [{ schema: "public", name: "orders", key: [] }];
      await state.receipts.answer("again", { kind: "tables", tables }, null);
      const book = bookAt(Date.now);
      add(book, [1], Date.now());
      await save(book.take());
      await removing;
      expect([await found(1), await state.receipts.tables("again")]).toEqual([1, tables]);
    });

    test("when all are removed, those go too that an ended run is still saving", async () => {
      const { save, found } = await connector("saving");
      const book = bookAt(Date.now);
      add(book, [1], Date.now());
      const saving = save(book.take());
      await state.receipts.remove("saving", null);
      await saving;
      expect(await found(1)).toBe(0);
    });

    test("a discard stays on record for 7 days, and for as long as a receipt may say that its message is parked", async () => {
      const { save } = await connector("discards");
      const { database } = state.parking as unknown as { readonly database: Database };
      const id = Bun.randomUUIDv7();
      const rowsOf = { places: [1n], firstRows: null, versions: [1] };
      const message: ParkedMessage = {
        id,
        schema: "public",
        table: "orders",
        keys: "[]",
        hashes: [1],
        isWide: false,
        isOfCopy: false,
        ...rowsOf,
        rows: 1,
        bytes: 1,
        body: new Uint8Array(1),
        firstLsn: "0/1",
        committedAtMs: 1,
        cause: "refused",
        attempts: [],
        mayHaveArrived: false,
      };
      await state.parking.answer("discards", { kind: "park", messages: [message] }, null);
      await state.parked.discard("discards", { id }, "ann");
      const sweep = { kind: "sweep", place: 1n, version: 1, areCopiesOpen: false } as const;
      const isOnRecordAfter = async (days: number) => {
        await database.execute(sql`update millrace.parked_messages
          set ended_at = clock_timestamp() - ${days}::float8 * interval '1 day' where id = ${id}::uuid`);
        // The first one notes that its rows do not come again.
        for (let i = 0; i < 2; i++) await state.parking.answer("discards", sweep, null);
        return (await state.parked.find("discards", id, false)) !== null;
      };
      const book = bookAt(() => Date.now() - 40 * 86_400_000);
      add(book, [1], Date.now());
      await save(book.take());
      expect(await isOnRecordAfter(39)).toBe(true);
      // A retry that was under way at the discard may have been refused after it.
      expect(await isOnRecordAfter(40.5)).toBe(true);
      await state.receipts.answer(
        "discards",
        { kind: "prune", maxAgeMs: 30 * 86_400_000, maxBytes: 1e9 },
        null,
      );
      expect(await isOnRecordAfter(6)).toBe(true);
      expect(await isOnRecordAfter(8)).toBe(false);
    });

    // The embedded database is the slower one.
    testEveryDay(kind === "pglite")("one among a million is found in less than a second", async () => {
      const { save, found } = await connector("million");
      const book = bookAt(Date.now);
      for (let id = 0; id < 1_000_000; ) {
        for (let request = 0; request < 10; request++, id += 100)
          add(
            book,
            Array.from({ length: 100 }, (_, i) => id + i),
            Date.now(),
          );
        const batches = book.take();
        await save(batches);
        book.saved(batches);
      }
      await found(1);
      for (const id of [17, 499_999, 999_999, 2_000_000]) {
        const beganMs = over.usedMs();
        expect(await found(id)).toBe(id < 1_000_000 ? 1 : 0);
        expect(over.usedMs() - beganMs).toBeLessThan(1_000);
      }
    });
  });
}
