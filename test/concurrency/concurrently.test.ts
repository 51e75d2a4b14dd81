// Work on one item after the other, several items at a time.

import { expect, test } from "bun:test";
import { concurrently, itemsOf } from "../../src/concurrency/concurrently.ts";

/** Promises that are settled have been told. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("so many items are worked on at a time, in their order, until there are no more", async () => {
  const order: number[] = [];
  let running = 0;
  let most = 0;
  await concurrently(2, itemsOf([1, 2, 3, 4, 5]), async (item) => {
    order.push(item);
    most = Math.max(most, ++running);
    await settle();
    running--;
  });
  expect(order).toEqual([1, 2, 3, 4, 5]);
  expect(most).toBe(2);
});

test("an item is asked for when somebody is free to work on it", async () => {
  const left = [1, 2, 3];
  const worked: (readonly [item: number, left: number])[] = [];
  await concurrently(
    1,
    () => left.shift() ?? null,
    async (item) => {
      worked.push([item, left.length]);
      // What is added while others are worked on is worked on, too.
      if (item === 3) left.push(4);
    },
  );
  expect(worked).toEqual([
    [1, 2],
    [2, 1],
    [3, 0],
    [4, 0],
  ]);
});

test("the first failure is thrown when what has begun is finished, and nothing else begins", async () => {
  const gate = Promise.withResolvers<void>();
  const done: number[] = [];
  const working = concurrently(2, itemsOf([1, 2, 3, 4]), async (item) => {
    if (item === 1) throw new Error("first");
    await gate.promise;
    done.push(item);
    throw new Error("second");
  });
  let isOver = false;
  const outcome = working.catch((error: unknown) => error).finally(() => (isOver = true));
  await settle();
  expect(isOver).toBe(false);
  gate.resolve();
  expect(await outcome).toEqual(new Error("first"));
  expect(done).toEqual([2]);
});

test("a failure with nothing, too, is a failure", async () => {
  await expect(concurrently(1, itemsOf([1]), () => Promise.reject(undefined))).rejects.toBeUndefined();
});

test("no item begins once it was stopped, and what has begun is finished", async () => {
  const stop = new AbortController();
  const done: number[] = [];
  await concurrently(2, itemsOf([1, 2, 3], stop.signal), async (item) => {
    stop.abort();
    await settle();
    done.push(item);
  });
  expect(done).toEqual([1]);
});

test("at least one is worked on at a time", async () => {
  const done: number[] = [];
  await concurrently(0, itemsOf([1, 2]), async (item) => void done.push(item));
  expect(done).toEqual([1, 2]);
});
