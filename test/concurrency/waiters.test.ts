import { expect, test } from "bun:test";
import { Waiters } from "../../src/concurrency/waiters.ts";

test("all that wait are woken once, and those that wait from then on by the next wake", async () => {
  const waiters = new Waiters();
  const woken: string[] = [];
  const wait = async (name: string) => {
    await waiters.change();
    woken.push(name);
    if (name === "again") await waiters.change().then(() => woken.push("later"));
  };
  expect(waiters.areAny).toBe(false);
  const ended = Promise.all([wait("one"), wait("again")]);
  expect(waiters.areAny).toBe(true);
  waiters.wake();
  expect(waiters.areAny).toBe(false);
  await Bun.sleep(0);
  expect(woken).toEqual(["one", "again"]);
  waiters.wake();
  await ended;
  expect(woken).toEqual(["one", "again", "later"]);
});
