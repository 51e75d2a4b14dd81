// Parses COPY text into tuples. Rows cut into chunks anywhere are read correctly.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { type ChangeBatch, ChangeKind } from "../../src/change/change-batch.ts";
import { CopyTextParser } from "../../src/change/copy-text.ts";
import { lsn } from "../../src/change/lsn.ts";
import { isPacked, storedBytes } from "../../src/change/packed-hex.ts";
import { tupleColumns } from "../../src/change/tuple.ts";
import { relation } from "../support/rows/batch-fixture.ts";

const point = { lsn: lsn(0x123n), timeUs: 5n };
const table = (columns: number) =>
  relation(
    "t",
    Array.from({ length: columns }, (_, n) => [`c${n}`, 25, "text"] as const),
  );

function rowsOf(batch: ChangeBatch): (string | null)[][] {
  const view = new DataView(batch.arena.buffer, batch.arena.byteOffset);
  return Array.from({ length: batch.count }, (_, i) => {
    let at = batch.newStart[i]!;
    const row: (string | null)[] = [];
    const count = view.getInt16(at);
    at += 2;
    for (let c = 0; c < count; c++) {
      const length = view.getInt32(at);
      at += 4;
      const stored = Buffer.from(batch.arena.subarray(at, at + storedBytes(length)));
      if (length < 0) row.push(null);
      else row.push(isPacked(length) ? `\\x${stored.toString("hex")}` : stored.toString("latin1"));
      at += stored.length;
    }
    expect(at).toBe(batch.newEnd[i]!);
    return row;
  });
}

function parse(
  columns: number,
  chunks: readonly Uint8Array[],
  batchBytes?: number,
  packedFrom?: number,
): (string | null)[][] {
  return parsed(columns, chunks, batchBytes, packedFrom).flatMap(rowsOf);
}

function parsed(columns: number, chunks: readonly Uint8Array[], batchBytes?: number, packedFrom?: number) {
  const parser = new CopyTextParser(table(columns), point, batchBytes, packedFrom);
  const batches = chunks.flatMap((chunk) => parser.push(chunk));
  const last = parser.finish();
  if (last) batches.push(last);
  for (const batch of batches) {
    expect(batch.kind.subarray(0, batch.count).every((kind) => kind === ChangeKind.read)).toBe(true);
  }
  return batches;
}

const latin = (text: string) => Buffer.from(text, "latin1");

const escapes: Readonly<Record<string, string>> = {
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
  "\\": "\\\\",
};
const escaped = (value: string | null) =>
  value === null ? "\\N" : value.replace(/[\b\f\n\r\t\v\\]/g, (char) => escapes[char]!);

test("any rows, cut into chunks and batches anywhere", () => {
  const value = fc.option(
    fc.oneof(
      fc.string({
        unit: fc.integer({ min: 1, max: 255 }).map((code) => String.fromCharCode(code)),
        maxLength: 12,
      }),
      fc.stringMatching(/^\\x([0-9a-f]{2}){1,9}[0-9a-fA-F]{0,2}$/),
    ),
  );
  const rows = fc
    .integer({ min: 1, max: 4 })
    .chain((columns) => fc.array(fc.array(value, { minLength: columns, maxLength: columns })));
  fc.assert(
    fc.property(
      rows,
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 200 }),
      (all, step, batchBytes) => {
        const bytes = latin(all.map((row) => `${row.map(escaped).join("\t")}\n`).join(""));
        const chunks: Uint8Array[] = [];
        for (let at = 0; at < bytes.length; at += step) chunks.push(bytes.subarray(at, at + step));
        expect(parse(all[0]?.length ?? 1, chunks, batchBytes, 6)).toEqual(all);
      },
    ),
    { numRuns: 300 },
  );
});

test("octal and hexadecimal escapes, and a backslash before any other character", () => {
  const text = "\\101\\x41\\x4a\\7x\\xg\\q\\0611\\x419\n";
  for (let cut = 0; cut <= text.length; cut++) {
    expect(parse(1, [latin(text.slice(0, cut)), latin(text.slice(cut))])).toEqual([["AAJ\x07xxgq11A9"]]);
  }
});

test("a table without columns, an empty column, and a NULL that is text", () => {
  expect(parse(0, [latin("\n\n")])).toEqual([[], []]);
  expect(parse(1, [latin("\n\\N\n\\\\N\n")])).toEqual([[""], [null], ["\\N"]]);
});

test("a row with too many or too few columns, or an unfinished last row, is a violation", () => {
  expect(() => parse(2, [latin("a\n")])).toThrow("COPY of public.t");
  expect(() => parse(2, [latin("a\tb\tc\n")])).toThrow("COPY of public.t");
  expect(() => parse(1, [latin("a")])).toThrow("within a row");
});

test("large bytea is packed wherever the chunks are cut, and similar text stays text", () => {
  const digits = "0af7".repeat(60_000);
  const row = [`\\x${digits}`, `\\x${digits}0`, `\\x${digits}zz`, `x${digits}`];
  const bytes = latin(`${row.map(escaped).join("\t")}\n`);
  const lengths = [7_001, 65_536, bytes.length].map((step) => {
    const chunks: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += step) chunks.push(bytes.subarray(at, at + step));
    const [batch] = parsed(4, chunks, undefined, 100_000);
    expect(Bun.deepEquals(rowsOf(batch!), [row])).toBe(true);
    return tupleColumns(batch!.arena, batch!.newStart[0]!).map(({ length }) => length);
  });
  expect(lengths).toEqual(Array(3).fill([120_000, 240_003, 240_004, 240_001]));
});

test("values after large bytea are intact when its memory grew in the middle of a chunk", () => {
  const parts = 32 * 1024;
  for (let size = 1024 * 1024; size < 2 * 1024 * 1024; size += parts) {
    for (const last of ["", "a", "A"]) {
      const value = `\\x${"5c".repeat(size / 2)}${last}`;
      const text = latin(`1\t\\${value}\tbehind\n2\t\\N\t${"next".repeat(9_000)}\n`);
      const rows = [
        ["1", value, "behind"],
        ["2", null, "next".repeat(9_000)],
      ];
      // Not toEqual, which would print the rows.
      expect(Bun.deepEquals(parse(3, [text]), rows)).toBe(true);
    }
  }
});
