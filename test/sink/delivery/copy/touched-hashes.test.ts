// What is kept in mind of the stream while a table is copied beside it. Copies to a receiver are in ../incremental-tasks.thorough.ts.

import { expect, test } from "bun:test";
import { type Lsn, lsn } from "../../../../src/change/lsn.ts";
import { TouchedHashes } from "../../../../src/sink/delivery/copy/touched-hashes.ts";
import { HashSet } from "../../../../src/sink/delivery/hash-set.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import { keyHash } from "../../../../src/sink/format/row-identity.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { relation, type TextTuple, tupleBytes, unchanged } from "../../../support/rows/batch-fixture.ts";

const shape = relation("t", [
  ["id", 23, "integer"],
  ["big", 25, "text"],
]);
const table = compileTable(shape, new NativeRowEncoder(shape, { placeholder: false }));

function see(
  touched: Pick<TouchedHashes, "see">,
  at: Lsn,
  after: TextTuple | null,
  before: TextTuple | null = null,
): void {
  const [old, now] = [
    before ? tupleBytes(before) : new Uint8Array(),
    after ? tupleBytes(after) : new Uint8Array(),
  ];
  const arena = new Uint8Array(Buffer.concat([old, now]));
  const [first, second] = [new TupleView(), new TupleView()];
  first.read(arena, 0, old.length);
  second.read(arena, old.length, arena.length);
  touched.see({ table, arena, before: first, after: second, commitLsn: at });
}

function hashOf(id: string): bigint {
  const arena = tupleBytes([id, "x"]);
  const view = new TupleView();
  view.read(arena, 0, arena.length);
  return keyHash(arena, view, [0])!;
}

test("a row is left out of a range that was read before the stream brought it, and only of that", () => {
  const touched = new TouchedHashes();
  see(touched, lsn(10n), ["1", "a"]);
  touched.beginPoint();
  see(touched, lsn(25n), ["2", "b"], ["3", null]);
  expect(["1", "2", "3", "4"].map((id) => touched.leavesOut(hashOf(id), lsn(20n)))).toEqual([
    false,
    true,
    true,
    false,
  ]);
  touched.beginPoint();
  touched.forgetBefore(lsn(30n));
  expect(["1", "2", "3"].map((id) => touched.leavesOut(hashOf(id), lsn(30n)))).toEqual([false, false, false]);
  expect([lsn(25n), lsn(26n)].map((point) => touched.remembers(point))).toEqual([false, true]);
  see(touched, lsn(40n), null);
  expect([lsn(30n), lsn(40n), lsn(41n)].map((point) => touched.leavesOut(hashOf("9"), point))).toEqual([
    ...[true, true, false],
  ]);
});

test("rows that came in part are incomplete, unless they came or went whole after that", () => {
  const touched = new TouchedHashes();
  for (const id of ["1", "2", "3", "4", "5", "6"]) see(touched, lsn(15n), [id, unchanged]);
  see(touched, lsn(16n), ["1", "whole"]);
  see(touched, lsn(17n), null, ["2", null]);
  // One goes out whole, one is left out, and of the others one may have been in no range.
  touched.beginPoint();
  expect(touched.leavesOut(hashOf("3"), lsn(20n))).toBe(false);
  see(touched, lsn(21n), ["4", unchanged]);
  expect(touched.leavesOut(hashOf("4"), lsn(20n))).toBe(true);
  see(touched, lsn(31n), ["7", unchanged]);
  see(touched, lsn(32n), ["8", unchanged], ["6", null]);
  expect(touched.incomplete.list().flat().toSorted()).toEqual(["4", "5", "7", "8"]);
  expect(touched.isLost).toBe(false);
  see(touched, lsn(33n), null);
  expect(touched.incomplete.isEmpty).toBe(true);
});

test("more keys than are to be remembered, of rows whole or in part, and nothing is said any more", () => {
  const lostAfter = (after: (id: number) => TextTuple, most?: number) => {
    const touched = new TouchedHashes(most);
    for (let id = 1; id < 100_000; id++) {
      // The same rows again and again are no more.
      for (let times = 0; times < 3; times++) see(touched, lsn(BigInt(id)), after(id));
      if (touched.isLost) return id;
      if (id % 30 === 0 && most) touched.beginPoint();
    }
    return null;
  };
  expect(lostAfter((id) => [String(id), "whole"], 100)).toBe(101);
  // As many as are recorded, or as take as much.
  expect(lostAfter((id) => [String(id), unchanged])).toBe(40_001);
  expect(lostAfter((id) => [String(id).padStart(1020, "0"), unchanged])).toBe(1025);
  const touched = new TouchedHashes(100);
  for (let id = 1; id < 1_000; id++) {
    see(touched, lsn(BigInt(id)), [String(id), "whole"]);
    // What was touched before every range still to come is forgotten.
    if (id % 50 !== 0) continue;
    touched.beginPoint();
    touched.forgetBefore(lsn(BigInt(id + 1)));
  }
  expect(touched.isLost).toBe(false);
});

test("a set of hashes has what was added, and nothing else", () => {
  const set = new HashSet();
  const hash = (n: number) => Bun.hash.wyhash(String(n)) as bigint;
  for (let n = 0; n < 20_000; n++) set.add(hash(n % 10_000));
  expect(set.size).toBe(10_000);
  for (let n = 0; n < 10_000; n++) expect(set.has(hash(n)) && !set.has(hash(n + 10_000))).toBe(true);
});

test("of rows that are wanted, and of what they are changed to, it is known that they came in part", () => {
  const touched = new TouchedHashes();
  touched.wanted = new Set([hashOf("1"), hashOf("2")]);
  see(touched, lsn(10n), ["1", unchanged]);
  see(touched, lsn(11n), ["3", unchanged]);
  see(touched, lsn(12n), ["4", unchanged], ["2", null]);
  expect(touched.incomplete.list()).toEqual([["1"], ["4"]]);
  see(touched, lsn(13n), ["5", unchanged], ["4", null]);
  see(touched, lsn(14n), ["1", "whole"]);
  expect(touched.incomplete.list()).toEqual([["5"]]);
});

test("a wanted row that was sent, or came whole, is complete when it is changed in part after that", () => {
  const touched = new TouchedHashes();
  touched.wanted = new Set(["1", "2", "3", "4"].map(hashOf));
  see(touched, lsn(10n), ["1", unchanged]);
  touched.beginPoint();
  expect(touched.leavesOut(hashOf("1"), lsn(20n))).toBe(false);
  see(touched, lsn(25n), ["1", unchanged]);
  see(touched, lsn(26n), ["2", "whole"]);
  see(touched, lsn(27n), ["2", unchanged]);
  expect(touched.incomplete.isEmpty).toBe(true);
  // Not one that was left out, or that takes its key from a row that is incomplete.
  see(touched, lsn(28n), ["3", unchanged]);
  expect(touched.leavesOut(hashOf("3"), lsn(20n))).toBe(true);
  see(touched, lsn(29n), ["1", unchanged], ["4", null]);
  expect(touched.incomplete.list().flat().toSorted()).toEqual(["1", "3"]);
});
