// Rows of both sides cancel each other out, in whatever order they come.

import { expect, test } from "bun:test";
import {
  BucketDifferences,
  bucketsFor,
  groupsOf,
  type Side,
} from "../../src/comparison/bucket-differences.ts";
import { type BinaryRow, readBinaryRows } from "../../src/comparison/digest-rows.ts";
import { UnmatchedRows } from "../../src/comparison/unmatched-rows.ts";
import { copyOf } from "../support/rows/binary-copy.ts";

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  // As chunks are: in memory that is used again.
  const memory = Buffer.alloc(size);
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    memory.set(piece);
    yield memory.subarray(0, piece.length);
  }
}

async function read(rows: Parameters<typeof copyOf>[0], onRow: (row: BinaryRow) => void, size = 1 << 20) {
  await readBinaryRows(inPieces(copyOf(rows), size), onRow);
}

test.each([1, 2, 7, 64, 4096])("rows come whole from chunks of %d bytes", async (size) => {
  const seen: unknown[] = [];
  const rows = [
    [1n, "one", null],
    [-2n, "", "ä€"],
  ] as const;
  await read(rows, (row) => seen.push([row.integer(0), row.text(1), row.text(2), row.fields]), size);
  expect(seen).toEqual([
    [1, "one", null, 3],
    [-2, "", "ä€", 3],
  ]);
});

const hash = (text: string, seed: number) => BigInt.asIntN(64, BigInt(Bun.hash(text, seed)));
const rowOf = (key: string, value: string) => [hash(key + value, 1), hash(key + value, 2), key] as const;

test("what differs is left, with its kind, among many rows that do not", async () => {
  const unmatched = new UnmatchedRows(1);
  const keys = Array.from({ length: 20_000 }, (_, i) => `key ${i}`);
  const rows: Record<Side, ReturnType<typeof rowOf>[]> = {
    source: keys.filter((key) => key !== "key 3").map((key) => rowOf(key, key === "key 1" ? "new" : "same")),
    sink: keys
      .filter((key) => key !== "key 2")
      .toReversed()
      .map((key) => rowOf(key, "same")),
  };
  await read(rows.source, (row) => unmatched.add("source", row));
  await read(rows.sink, (row) => unmatched.add("sink", row));
  expect([...unmatched.differences()].flat().toSorted((a, b) => a.key[0]!.localeCompare(b.key[0]!))).toEqual([
    { key: ["key 1"], kind: "Changed" },
    { key: ["key 2"], kind: "Missing" },
    { key: ["key 3"], kind: "Extra" },
  ]);
});

test("equal rows without a key count each", async () => {
  const unmatched = new UnmatchedRows(0);
  const of = (text: string) => [hash(text, 1), hash(text, 2)] as const;
  await read([of("a"), of("a"), of("b")], (row) => unmatched.add("source", row));
  await read([of("a"), of("b"), of("b"), of("b")], (row) => unmatched.add("sink", row));
  expect([unmatched.count("source"), unmatched.count("sink")]).toEqual([1, 2]);
});

test("millions of equal rows take no more time and memory than one, also where one side is far ahead", async () => {
  const unmatched = new UnmatchedRows(0);
  const rows = Array.from({ length: 200_000 }, () => [1n, 2n] as const);
  await read(rows, (row) => unmatched.add("source", row));
  expect(unmatched.count("source")).toBe(200_000);
  await read(rows.slice(3), (row) => unmatched.add("sink", row));
  await read([[1n, 3n]], (row) => unmatched.add("sink", row));
  expect([unmatched.count("source"), unmatched.count("sink")]).toEqual([3, 1]);
  expect(unmatched.bytes).toBeLessThan(100_000);
});

test("equal rows count in a table that has grown, too", async () => {
  const unmatched = new UnmatchedRows(1);
  const rows = Array.from({ length: 5_000 }, (_, i) => rowOf(`key ${i}`, "same"));
  await read([...rows, ...rows], (row) => unmatched.add("source", row));
  expect(unmatched.count("source")).toBe(10_000);
  await read([...rows, ...rows.slice(1)], (row) => unmatched.add("sink", row));
  expect([unmatched.count("source"), unmatched.count("sink")]).toEqual([1, 0]);
  expect([...unmatched.differences()].flat()).toEqual([{ key: ["key 0"], kind: "Missing" }]);
});

test("differences come in parts, each key in one of them", async () => {
  const unmatched = new UnmatchedRows(1);
  const keys = Array.from({ length: 20_000 }, (_, i) => String(i));
  await read(
    keys.map((key) => rowOf(key, "new")),
    (row) => unmatched.add("source", row),
  );
  await read(
    keys.slice(10).map((key) => rowOf(key, "old")),
    (row) => unmatched.add("sink", row),
  );
  const parts = [...unmatched.differences(1000)];
  expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(1000);
  const differences = parts.flat();
  expect(new Set(differences.map(({ key }) => key[0]!))).toEqual(new Set(keys));
  expect(differences).toHaveLength(20_000);
  expect(differences.filter(({ kind }) => kind !== "Changed")).toHaveLength(10);
});

test("rows whose key has a NULL are counted, and do not disturb the others", async () => {
  const unmatched = new UnmatchedRows(2);
  await read([[1n, 2n, "a", "b"]], (row) => unmatched.add("source", row));
  await read(
    [
      [3n, 4n, null, "b"],
      [5n, 6n, "a", null],
      [7n, 8n, "", "c"],
    ],
    (row) => unmatched.add("sink", row),
  );
  expect(unmatched.withoutKey).toBe(2);
  expect([...unmatched.differences()].flat()).toEqual([
    { key: ["a", "b"], kind: "Missing" },
    { key: ["", "c"], kind: "Extra" },
  ]);
});

test("a bucket differs by its count or by its digest", async () => {
  const found = new BucketDifferences(4, false);
  await read(
    [
      [0, 2n, 5n, 6n],
      [1, 1n, 7n, 8n],
      [2, 1n, 7n, 8n],
    ],
    (row) => found.add("source", row),
  );
  // In two parts.
  await read([[0, 1n, 4n, 4n]], (row) => found.add("sink", row));
  await read(
    [
      [0, 1n, 1n, 2n],
      [1, 1n, 7n, 9n],
      [3, 1n, 0n, 0n],
    ],
    (row) => found.add("sink", row),
  );
  expect(found.differing()).toEqual([1, 2, 3]);
  expect(found.rows("source")).toBe(4);
  expect(groupsOf({ rowsIn: (bucket) => found.rowsIn(bucket) }, found.differing(), 2)).toEqual([[1], [2, 3]]);
});

test("sums tell equal rows from none", async () => {
  const found = new BucketDifferences(1, true);
  await read([[0, 2n, 10n, -10n, 2n ** 33n, 0n]], (row) => found.add("source", row));
  await read([[0, 2n, 10n, -10n, 2n ** 33n, 2n]], (row) => found.add("sink", row));
  expect(found.differing()).toEqual([0]);
});

test("there are as many buckets as the rows make worth while", () => {
  expect([0, 1000, 5_000_000, 1e9].map((rows) => bucketsFor(rows, "Few"))).toEqual([
    64,
    64,
    2 ** 14,
    2 ** 18,
  ]);
  expect([0, 2000, 5_000_000, 1e9].map((rows) => bucketsFor(rows, "Many"))).toEqual([
    64,
    64,
    2 ** 18,
    2 ** 18,
  ]);
});

test.each([100_000, 1_000_000, 5_000_000])(
  "where 1 %% of %d rows differ here and there, most rows are not read again",
  (rows) => {
    const readAgain = 1 - 0.99 ** (rows / bucketsFor(rows, "Many"));
    expect(readAgain).toBeLessThan(0.3);
  },
);
