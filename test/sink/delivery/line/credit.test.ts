// How much may be on its way over the line, of the stream and of copies.

import { expect, test } from "bun:test";
import { Credit } from "../../../../src/sink/delivery/line/credit.ts";

/** Whether it was had at once. */
async function isHad(spending: Promise<void>): Promise<boolean> {
  return await Promise.race([spending.then(() => true), Bun.sleep(5).then(() => false)]);
}

test("a copy takes no more than a quarter, and what is given back goes to who waits", async () => {
  const credit = new Credit(1_000);
  expect(await isHad(credit.spend(200, 1))).toBe(true);
  const second = credit.spend(100, 1);
  expect(await isHad(second)).toBe(false);
  expect(await isHad(credit.spend(250, 2))).toBe(true);
  credit.give(200, 1);
  expect(await isHad(second)).toBe(true);
});

test("a copy that has nothing on its way waits for no other, where its rows are within its share", async () => {
  const credit = new Credit(1_000);
  for (let copy = 1; copy <= 4; copy++) await credit.spend(250, copy);
  expect(await isHad(credit.spend(250, 5))).toBe(true);
  const more = credit.spend(10, 5);
  const large = credit.spend(251, 6);
  expect([await isHad(more), await isHad(large)]).toEqual([false, false]);
  for (let copy = 1; copy <= 5; copy++) credit.give(250, copy);
  expect([await isHad(more), await isHad(large)]).toEqual([true, true]);
});

test("a batch of the stream, and a row that is above all, go when nothing else is on its way", async () => {
  const credit = new Credit(1_000);
  await credit.spend(900, null);
  const row = credit.spend(5_000, 1);
  expect(await isHad(row)).toBe(false);
  credit.give(900, null);
  expect(await isHad(row)).toBe(true);
  expect(await isHad(credit.settle())).toBe(false);
});

test("the stream has a bound of its own, and copies beside it have theirs", async () => {
  const credit = new Credit(1_000, 400);
  await credit.spend(300, null);
  expect(await isHad(credit.spend(250, 1))).toBe(true);
  const more = credit.spend(200, null);
  expect(await isHad(more)).toBe(false);
  credit.give(300, null);
  expect(await isHad(more)).toBe(false);
  credit.give(250, 1);
  expect(await isHad(more)).toBe(true);
});

test("who waits is told when nobody gives any more", async () => {
  const credit = new Credit(10);
  await credit.spend(10, 1);
  const waiting = credit.spend(10, 1);
  credit.end(new Error("over"));
  await expect(waiting).rejects.toThrow("over");
  await expect(credit.spend(1, 2)).rejects.toThrow("over");
});
