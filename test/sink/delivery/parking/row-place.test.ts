// The order of places: of changes, their parts, and copies between them.

import { expect, test } from "bun:test";
import type { Position } from "../../../../src/change/checkpoint.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import {
  changeAt,
  comparePlace,
  endPoint,
  passedPoint,
  pointOf,
} from "../../../../src/sink/delivery/parking/row-place.ts";
import { RowPart } from "../../../../src/sink/format/idempotency-key.ts";

const highest = 2n ** 64n - 1n;
const row = (commitLsn: bigint, version: number, ordinal: number, part: RowPart, behind: Position | null) =>
  pointOf({ context: { commitLsn: lsn(commitLsn), version }, moment: { ordinal, part }, behind });
/** Versions say nothing: they fall. */
let version = 1_000;
const change = (commitLsn: bigint, ordinal: number, part: RowPart = RowPart.whole) =>
  row(commitLsn, version--, ordinal, part, null);
/** As of a point of the log that the stream has not come to. */
const copy = (commitLsn: bigint, ordinal: number, ofVersion: number) =>
  row(highest, ofVersion, 0, RowPart.snapshot, { commitLsn: lsn(commitLsn), ordinal });

const rising = [
  copy(100n, -1, 1),
  ...[change(100n, 0), change(100n, 1, RowPart.keyRemoved), change(100n, 1, RowPart.keyAdded)],
  ...[copy(100n, 1, 5), copy(100n, 1, 6), change(100n, 2, RowPart.truncate)],
  ...[change(100n, 4_294_967_295), change(101n, 0), copy(101n, 0, 2 ** 53 - 1), change(101n, 1)],
  ...[change(highest, 4_294_967_295), endPoint],
];

test("changes rise with their positions, and copies stand behind the change that they come after", () => {
  for (const [i, a] of rising.entries())
    for (const [j, b] of rising.entries())
      expect([i, j, Math.sign(comparePlace(a.place, b))]).toEqual([i, j, Math.sign(i - j)]);
  expect(comparePlace(change(100n, 2).place, change(100n, 2))).toBe(0);
});

test("a checkpoint passes what is before it, and copies behind its change by their versions", () => {
  const passes = (resumeLsn: bigint, ordinal: number | null, lastVersion: bigint) => {
    const commitLsn = lsn(100n);
    const partial = ordinal === null ? null : { commitLsn, ordinal };
    const point = passedPoint({ resumeLsn: lsn(resumeLsn), partial, lastVersion });
    return rising.filter(({ place }) => comparePlace(place, point) <= 0).length;
  };
  expect(passes(100n, null, 0n)).toBe(0);
  expect(passes(100n, null, 1n)).toBe(1);
  expect(passes(99n, 0, 1n)).toBe(2);
  expect(passes(100n, 1, 5n)).toBe(5);
  expect(passes(100n, 2, 5n)).toBe(7);
  expect(passes(101n, null, 0n)).toBe(8);
});

test("a place tells its change, of whatever part", () => {
  const ordinals = [0, 1, 4_294_967_295];
  for (const ordinal of ordinals)
    for (const part of [RowPart.whole, RowPart.keyRemoved, RowPart.keyAdded, RowPart.truncate])
      expect(changeAt(change(100n, ordinal, part).place)).toEqual({ commitLsn: lsn(100n), ordinal });
  expect(changeAt(-1_700_000_000_000_000n)).toBeNull();
  expect(changeAt(copy(highest, 7, 2 ** 53 - 1).place)).toEqual({ commitLsn: lsn(highest), ordinal: 7 });
});

test("versions stand for the places of what an earlier version has parked", () => {
  const at = { place: 7n, version: 10 };
  expect([-9n, -10n, -11n].map((place) => Math.sign(comparePlace(place, at)))).toEqual([-1, 0, 1]);
});
