// Which part of a table remains to be copied, and in which ranges.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { type PageRange, RangesLeft } from "../../src/change/page-range.ts";
import { rangesAtOnce } from "../support/pipeline/ranges-at-once.ts";

const page = 8192;

test("a table is divided into ranges of about the requested size, and the last one has no end", () => {
  expect(rangesAtOnce({ pages: 10, bytes: 10 * page }, [], { bytes: 4 * page, lanes: 1 })).toEqual([
    { from: 0, to: 4 },
    { from: 4, to: 8 },
    { from: 8, to: null },
  ]);
});

test("TOAST data makes ranges of fewer pages, but of one at least", () => {
  const ranges = rangesAtOnce({ pages: 4, bytes: 4000 * page }, [], { bytes: page, lanes: 1 });
  expect(ranges.map(({ from }) => from)).toEqual([0, 1, 2, 3]);
});

test("the last ranges are a lane's share of the rest each, but not tiny, so that all lanes finish at about the same time", () => {
  const lanes = 4;
  const pages = 10_000;
  const ranges = rangesAtOnce({ pages, bytes: pages * page }, [], { bytes: 1024 * page, lanes });
  const lengths = ranges.map(({ from, to }) => (to ?? pages) - from);
  expect(Math.max(...lengths)).toBe(1024);
  expect(Math.min(...lengths.slice(0, -1))).toBe(64);
  expect(lengths).toEqual(lengths.toSorted((a, b) => b - a));
  // Each lane takes the next range when it is free.
  const endOf = (each: readonly number[]) => {
    const ends = Array.from({ length: lanes }, () => 0);
    for (const length of each) ends[ends.indexOf(Math.min(...ends))]! += length;
    return ends;
  };
  expect(Math.max(...endOf(lengths)) - Math.min(...endOf(lengths))).toBeLessThanOrEqual(64);
  expect(lengths.length).toBeLessThan(30);
});

test("only pages outside all ranges remain, and the end of the table if no range includes it", () => {
  const done = [
    { from: 6, to: 8 },
    { from: 0, to: 2 },
  ];
  expect(rangesAtOnce({ pages: 9, bytes: 9 * page }, done, { bytes: 3 * page, lanes: 1 })).toEqual([
    { from: 2, to: 5 },
    { from: 5, to: 6 },
    { from: 8, to: null },
  ]);
  expect(
    rangesAtOnce({ pages: 9, bytes: 9 * page }, [...done, { from: 8, to: null }], {
      bytes: 9 * page,
      lanes: 1,
    }),
  ).toEqual([{ from: 2, to: 6 }]);
  expect(
    rangesAtOnce({ pages: 9, bytes: 9 * page }, [{ from: 0, to: null }], { bytes: page, lanes: 1 }),
  ).toEqual([]);
});

test("whatever was copied, and however the table has grown or shrunk since, each page is in one range", () => {
  const size = fc.record({
    pages: fc.integer({ min: 1, max: 60 }),
    rangePages: fc.integer({ min: 1, max: 40 }),
    lanes: fc.integer({ min: 1, max: 6 }),
  });
  fc.assert(
    fc.property(size, size, fc.array(fc.boolean(), { maxLength: 70 }), (then, now, isDone) => {
      const leftOf = ({ pages, rangePages, lanes }: typeof then, done: readonly PageRange[]) =>
        rangesAtOnce({ pages, bytes: pages * page }, done, { bytes: rangePages * page, lanes });
      const first = leftOf(then, []);
      const done = first.filter((_, i) => isDone[i]);
      const left = leftOf(now, done);
      for (let at = 0; at < 150; at++)
        expect([...done, ...left].filter((range) => holds(range, at)).length).toBe(1);
    }),
  );
});

test("ranges grow from small ones to the maximum, and are as large as their time allows", () => {
  const pages = 100_000;
  const cut = { bytes: 1024 * page, firstBytes: 16 * page, ms: 20_000, lanes: 4 };
  const left = new RangesLeft({ pages, bytes: pages * page }, [], cut);
  const copy = (msOfPage: number) => {
    const range = left.next()!;
    const length = range.to! - range.from;
    left.copied(range, length * msOfPage);
    return length;
  };
  expect(Array.from({ length: 5 }, () => copy(0.1))).toEqual([16, 64, 256, 1024, 1024]);
  // A receiver that takes one page per second.
  expect(Array.from({ length: 3 }, () => copy(1_000))).toEqual([1024, 20, 20]);
  expect(copy(60_000)).toBe(20);
  expect(Array.from({ length: 3 }, () => copy(60_000))).toEqual([4, 4, 4]);
  expect(Array.from({ length: 5 }, () => copy(0.1))).toEqual([4, 16, 64, 256, 1024]);
});

test("a range that is small for another reason does not shrink the following ones", () => {
  const done = [
    { from: 0, to: 8 },
    { from: 9, to: 10 },
  ];
  const cut = { bytes: 1024 * page, firstBytes: 512 * page, ms: 20_000, lanes: 1 };
  const left = new RangesLeft({ pages: 10_000, bytes: 10_000 * page }, done, cut);
  const gap = left.next()!;
  expect(gap).toEqual({ from: 8, to: 9 });
  left.copied(gap, 5);
  expect(left.next()).toEqual({ from: 10, to: 522 });
});

test("unfinished ranges come first and unchanged, if none of them is copied or overlaps another", () => {
  const cut = { bytes: 4 * page, firstBytes: 4 * page, ms: 20_000, lanes: 1 };
  const begun = [
    { from: 9, to: 14 },
    { from: 2, to: 3 },
    { from: 13, to: 15 },
    { from: 18, to: null },
    { from: 3, to: 5 },
  ];
  const left = new RangesLeft({ pages: 20, bytes: 20 * page }, [{ from: 0, to: 3 }], cut, begun);
  const ranges = Array.from({ length: 7 }, () => left.next());
  expect(ranges).toEqual([
    { from: 9, to: 14 },
    { from: 18, to: null },
    { from: 3, to: 5 },
    { from: 5, to: 9 },
    { from: 14, to: 18 },
    null,
    null,
  ]);
  for (const range of ranges) if (range) left.copied(range, 1);
  expect(left.isDone).toBe(true);
});

test("the table is complete when no range remains or is in progress", () => {
  const cut = { bytes: 4 * page, firstBytes: 4 * page, ms: 20_000, lanes: 1 };
  const left = new RangesLeft({ pages: 8, bytes: 8 * page }, [], cut);
  const [one, other] = [left.next()!, left.next()!];
  expect(left.next()).toBeNull();
  left.copied(other, 1);
  expect(left.isDone).toBe(false);
  left.copied(one, 1);
  expect(left.isDone).toBe(true);
});

function holds({ from, to }: PageRange, at: number): boolean {
  return at >= from && (to === null || at < to);
}
