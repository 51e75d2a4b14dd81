// Bodies of receipts give back what was written, and filters hold every key.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { lsn } from "../../../../src/change/lsn.ts";
import { textsDigest } from "../../../../src/sink/delivery/receipts/key-digest.ts";
import {
  filterKey,
  keyFilter,
  mayHold,
  tableHash,
} from "../../../../src/sink/delivery/receipts/key-filter.ts";
import { OpenPiece } from "../../../../src/sink/delivery/receipts/open-piece.ts";
import { outcomes, type Receipt } from "../../../../src/sink/delivery/receipts/receipt.ts";
import { decodeBody, encodePiece } from "../../../../src/sink/delivery/receipts/receipt-body.ts";
import {
  commitOf,
  type KeptRows,
  ReceiptRows,
  RowLists,
} from "../../../../src/sink/delivery/receipts/receipt-rows.ts";
import type { CompiledTable } from "../../../../src/sink/format/compiled-table.ts";
import type { RowMoment } from "../../../../src/sink/format/idempotency-key.ts";
import type { RowContext } from "../../../../src/sink/format/row-encoder.ts";

test("a part of a request with a TRUNCATE has the rows of its numbers", () => {
  const rows = new ReceiptRows(false);
  const table = { relation: { key: [0] } } as unknown as CompiledTable;
  const context = { operation: "truncate", commitLsn: lsn(7n), commitTimeUs: 1 } as RowContext;
  const moment = { ordinal: 0, part: 0 } as RowMoment;
  rows.add(table, { arena: new Uint8Array(), identity: null, context, moment, touches: [] });
  for (const hash of [11, 22]) {
    rows.addRow(hash, hash, 0);
    rows.addToRun(lsn(8n), 2);
  }
  const part = rows.part([1, 2]);
  expect(part.lists.hashes).toEqual([11, 22]);
  expect([0, 1].map((row) => commitOf(part, row)?.lsn)).toEqual([lsn(8n), lsn(8n)]);
});

const word = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const time = fc.integer({ min: 0, max: 4_000_000_000_000 });
const long = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

const runs = fc.array(
  fc.record({ count: fc.integer({ min: 1, max: 5 }), at: long, timeUs: fc.integer({ min: 0, max: 4e15 }) }),
  { maxLength: 5 },
);

/** Lists that all rows of the tests share. */
const lists = new RowLists();

const rowsOf = fc.tuple(runs, fc.boolean(), fc.boolean(), word).map(([made, areMessages, isAlone, seed]) => {
  const rows = new ReceiptRows(areMessages, isAlone ? new RowLists() : lists);
  made.forEach(({ count, at, timeUs }, run) => {
    for (let i = 0; i < count; i++) {
      rows.addRow((seed + run * 977 + i) >>> 0, (seed + i) & 0xffff, (i % 5) | (run << 3));
      rows.ordinals?.push(seed >>> 1);
      rows.addToRun(lsn(at), timeUs);
    }
  });
  return rows;
});

/** Messages of Kafka: some of them without an offset. */
const messagesOf = fc.tuple(rowsOf, fc.integer({ min: 0, max: 2 ** 52 })).map(([rows, first]) => {
  const all = Array.from({ length: rows.count }, (_, row) => row);
  const partitions = all.map((row) => row % 3);
  const offsets = all.map((row) => (row % 4 === 3 ? Number.NaN : first + row));
  return rows.ordinals ? { ...rows, partitions, offsets } : rows;
});

const receipt = fc.record({
  schema: fc.constantFrom("public", 'o"dd', "ä"),
  table: fc.constantFrom("orders", "t\\"),
  key: fc.option(fc.uuid()),
  outcome: fc.constantFrom(...outcomes),
  attempts: word,
  status: fc.integer({ min: 0, max: 999 }),
  ms: word,
  firstAtMs: time,
  lastAtMs: time,
  rows: rowsOf,
});

const message = fc
  .tuple(receipt, fc.constantFrom("orders", "other"), messagesOf)
  .map(([facts, topic, rows]) => {
    return rows.ordinals ? { ...facts, topic, rows } : { ...facts, rows };
  });

const plainRows = (rows: KeptRows) =>
  Array.from({ length: rows.count }, (_, row) => ({
    hash: rows.lists.hashes[rows.first + row],
    check: rows.lists.checks[rows.first + row],
    mark: rows.lists.marks[rows.first + row],
    ordinal: rows.ordinals?.[row],
    commit: commitOf(rows, row),
    partition: rows.partitions?.[row],
    offset: rows.offsets?.[row],
  }));

const plain = ({ rows, ...facts }: Receipt) => ({
  ...facts,
  runs: rows.runs,
  areMessages: rows.ordinals !== null,
  rows: plainRows(rows),
});

test("what was written is read again, in pieces of any size", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.oneof(receipt, message), { minLength: 1, maxLength: 40 }), { maxLength: 4 }),
      (pieces) => {
        const body = new Uint8Array(Buffer.concat(pieces.map((each) => encodePiece(each))));
        expect([...decodeBody(body)].map(plain)).toEqual(pieces.flat().map(plain));
      },
    ),
    { numRuns: 200 },
  );
});

test("a part has the rows of the part, in their transactions", () => {
  fc.assert(
    fc.property(rowsOf, fc.array(fc.boolean(), { minLength: 25, maxLength: 25 }), (rows, wanted) => {
      const chosen = Array.from({ length: rows.count }, (_, i) => i).filter((i) => wanted[i]);
      const part = rows.part(chosen);
      const all = plainRows(rows);
      expect(plainRows(part)).toEqual(chosen.map((row) => all[row]!));
      expect(part.lists.runRows.reduce((sum, count) => sum + count, 0)).toBe(part.count);
    }),
  );
});

test("a filter holds each of its keys, and few others", () => {
  const table = tableHash("public", "orders");
  const keyOf = (n: number) => filterKey(table, textsDigest([String(n)]).hash);
  const keys = Array.from({ length: 5_000 }, (_, n) => keyOf(n));
  const filter = keyFilter(keys);
  expect(keys.every((key) => mayHold(filter, key))).toBe(true);
  const others = Array.from({ length: 20_000 }, (_, n) => keyOf(100_000 + n));
  expect(others.filter((key) => mayHold(filter, key)).length / others.length).toBeLessThan(0.025);
  const elsewhere = keys.map((_, n) =>
    filterKey(tableHash("public", "other"), textsDigest([String(n)]).hash),
  );
  expect(elsewhere.filter((key) => mayHold(filter, key)).length / elsewhere.length).toBeLessThan(0.025);
});

test("keys of a million rows have digests of their own", () => {
  const seen = new Set<number>();
  for (let n = 0; n < 1_000_000; n++) {
    const { hash, check } = textsDigest([String(n)]);
    seen.add(hash * 65_536 + check);
  }
  // A million among 2^48 share one with a chance of 1 in 560.
  expect(seen.size).toBeGreaterThanOrEqual(1_000_000 - 2);
});

test("a piece that is cleared has nothing of what it had", () => {
  const piece = new OpenPiece();
  const written = (open: OpenPiece, receipts: readonly Receipt[]) => {
    for (const each of receipts) open.add(each);
    return { bytes: open.bytes(), keys: open.filterKeys(), receipts: open.receipts };
  };
  fc.assert(
    fc.property(fc.array(message, { maxLength: 12 }), (receipts) => {
      expect(written(piece, receipts)).toEqual(written(new OpenPiece(), receipts));
      piece.clear();
      expect(piece.receipts).toBe(0);
    }),
    { numRuns: 300 },
  );
});
