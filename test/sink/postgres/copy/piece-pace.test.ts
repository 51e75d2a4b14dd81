// How many pages of a copy are written at a time: so many that the stream waits about 100 ms.

import { expect, test } from "bun:test";
import { PiecePace } from "../../../../src/sink/postgres/copy/piece-pace.ts";

const quick = async () => {};

test("pieces that take no time become larger", async () => {
  const pace = new PiecePace();
  const first = pace.size;
  await pace.measure(first, quick);
  await pace.measure(first * 2, quick);
  expect(pace.size).toBe(first * 4);
});

test("those that take long become smaller, whatever they hold", async () => {
  const pace = new PiecePace();
  const first = pace.size;
  await pace.measure(1, () => Bun.sleep(150));
  expect(pace.size).toBe(first / 2);
});

test("many small ones say nothing of a full one", async () => {
  const pace = new PiecePace();
  const first = pace.size;
  for (let i = 0; i < 40; i++) await pace.measure(first - 1, quick);
  expect(pace.size).toBe(first);
});
