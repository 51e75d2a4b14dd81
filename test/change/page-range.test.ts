// What is left of a table to be copied, and in which ranges.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { type PageRange, rangesLeft } from "../../src/change/page-range.ts";

const page = 8192;

test("a table is divided into ranges of about the size that was asked for, the last one open", () => {
  expect(rangesLeft({ pages: 10, bytes: 10 * page }, [], 4 * page)).toEqual([
    { from: 0, to: 4 },
    { from: 4, to: 8 },
    { from: 8, to: null },
  ]);
});

test("what lies out of line makes ranges of fewer pages, of one at least", () => {
  const ranges = rangesLeft({ pages: 4, bytes: 4000 * page }, [], page);
  expect(ranges.map(({ from }) => from)).toEqual([0, 1, 2, 3]);
});

test("only what no range has is left, and the end when no range has that", () => {
  const done = [
    { from: 6, to: 8 },
    { from: 0, to: 2 },
  ];
  expect(rangesLeft({ pages: 9, bytes: 9 * page }, done, 3 * page)).toEqual([
    { from: 2, to: 5 },
    { from: 5, to: 6 },
    { from: 8, to: null },
  ]);
  expect(rangesLeft({ pages: 9, bytes: 9 * page }, [...done, { from: 8, to: null }], 9 * page)).toEqual([
    { from: 2, to: 6 },
  ]);
  expect(rangesLeft({ pages: 9, bytes: 9 * page }, [{ from: 0, to: null }], page)).toEqual([]);
});

test("whatever was done of it, and however it has grown or shrunk since, each page is in one range", () => {
  const size = fc.record({
    pages: fc.integer({ min: 1, max: 60 }),
    rangePages: fc.integer({ min: 1, max: 9 }),
  });
  fc.assert(
    fc.property(size, size, fc.array(fc.boolean(), { maxLength: 70 }), (then, now, isDone) => {
      const first = rangesLeft({ pages: then.pages, bytes: then.pages * page }, [], then.rangePages * page);
      const done = first.filter((_, i) => isDone[i]);
      const left = rangesLeft({ pages: now.pages, bytes: now.pages * page }, done, now.rangePages * page);
      for (let at = 0; at < 150; at++)
        expect([...done, ...left].filter((range) => holds(range, at)).length).toBe(1);
    }),
  );
});

function holds({ from, to }: PageRange, at: number): boolean {
  return at >= from && (to === null || at < to);
}
