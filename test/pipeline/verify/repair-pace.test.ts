// The stream waits for about 200 ms while rows are repaired, and not more often than it must where each piece takes long by itself.

import { expect, test } from "bun:test";
import { RepairPace } from "../../../src/pipeline/verify/repair-pace.ts";

/** How long each piece takes until so many rows are repaired. */
function piecesMs(rows: number, msOf: (rows: number) => number): readonly number[] {
  const pace = new RepairPace();
  const all: number[] = [];
  for (let left = rows; left > 0; ) {
    const ms = msOf(pace.rows);
    all.push(ms);
    left -= pace.rows;
    pace.took(pace.rows, ms);
  }
  return all;
}

test("pieces that take long whatever they have become large", () => {
  expect(piecesMs(5_000, () => 1_000).length).toBeLessThan(20);
});

test("where each row takes long too, a piece takes at most three times as long as one of no rows", () => {
  const pieces = piecesMs(20_000, (rows) => 1_000 + rows);
  expect(pieces.length).toBeLessThan(30);
  expect(Math.max(...pieces)).toBeLessThanOrEqual(3_000);
});

test.each([0.05, 0.5, 5])("a piece takes between 200 and 800 ms where a row takes %d ms", (rowMs) => {
  const pieces = piecesMs(50_000, (rows) => rows * rowMs);
  const settled = pieces.slice(6);
  expect(settled.length).toBeGreaterThan(0);
  expect(Math.min(...settled)).toBeGreaterThanOrEqual(200);
  expect(Math.max(...settled)).toBeLessThanOrEqual(800);
});

test("a piece that was held up once changes little", () => {
  let pieces = 0;
  const settled = piecesMs(50_000, (rows) => (++pieces === 8 ? 5_000 : rows / 2)).slice(-10);
  expect(Math.min(...settled)).toBeGreaterThanOrEqual(200);
  expect(Math.max(...settled)).toBeLessThanOrEqual(800);
});

test("a piece that is not full, as the last one of a part, says nothing of larger ones", () => {
  const pace = new RepairPace();
  pace.took(pace.rows, 100);
  const { rows } = pace;
  pace.took(3, 1);
  expect(pace.rows).toBe(rows);
});
