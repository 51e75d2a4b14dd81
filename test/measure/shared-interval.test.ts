// Callers with the same interval in one thread share a timer, and each can leave without affecting the others.

import { expect, test } from "bun:test";
import { sharedInterval } from "../../src/measure/shared-interval.ts";
import { waitFor } from "../support/wait-for.ts";

const everyMs = 23;

test("all calls of one interval happen in one turn of the event loop, whenever they were registered", async () => {
  const turns: string[] = [];
  let turn = "";
  const note = (name: string) => {
    turn += name;
    if (turn.length === 1)
      setImmediate(() => {
        turns.push(turn);
        turn = "";
      });
  };
  using _a = sharedInterval(everyMs, () => note("a"));
  await Bun.sleep(everyMs / 2);
  using _b = sharedInterval(everyMs, () => note("b"));
  using _other = sharedInterval(everyMs * 4 + 1, () => {});
  await waitFor("some turns", () => turns.length > 3);
  expect(new Set(turns)).toEqual(new Set(["ab"]));
});

test("a caller that leaves is not called again, even during a turn; one function registered twice is called twice", async () => {
  const called: string[] = [];
  const twice = () => void called.push("twice");
  const first = sharedInterval(everyMs, twice);
  using _leaver = sharedInterval(everyMs, () => third[Symbol.dispose]());
  const third: Disposable = sharedInterval(everyMs, () => void called.push("third"));
  using _second = sharedInterval(everyMs, twice);
  await waitFor("some calls", () => called.length > 3);
  expect(new Set(called)).toEqual(new Set(["twice"]));
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  const before = called.length;
  await waitFor("more calls", () => called.length > before + 1);
});

test("after all have left, the next caller starts a new timer", async () => {
  sharedInterval(everyMs, () => {})[Symbol.dispose]();
  let calls = 0;
  using _ = sharedInterval(everyMs, () => void calls++);
  await waitFor("its calls", () => calls > 1);
  expect(calls).toBeGreaterThan(1);
});

test("a caller that joins during a turn waits for the next one", async () => {
  let turns = 0;
  let own: Disposable | null = null;
  const joinAgain = () => {
    turns++;
    own?.[Symbol.dispose]();
    own = sharedInterval(everyMs, joinAgain);
  };
  using _other = sharedInterval(everyMs, () => {});
  own = sharedInterval(everyMs, joinAgain);
  await waitFor("some turns", () => turns > 2);
  expect(turns).toBeLessThan(10);
  own[Symbol.dispose]();
});
