// When the reader of a stream lets the kernel gather messages, by injected times.

import { expect, test } from "bun:test";
import { Gathering } from "../../../../src/source/postgres/stream/gathering.ts";

/** Behind which of the chunks, each of so many bytes and so long after the one before, there is a rest, and for how long. */
function rests(...chunks: readonly (readonly [bytes: number, afterMs: number])[]): string[] {
  const gathering = new Gathering();
  let now = 1_000;
  return chunks.flatMap(([bytes, afterMs], i) => {
    now += afterMs;
    const ms = gathering.restMs(bytes, now);
    return ms > 0 ? [`${i}: ${Math.round(ms * 10) / 10}`] : [];
  });
}

const many = <T>(count: number, chunk: T) => Array.from({ length: count }, () => chunk);
const small = [100, 0.01] as const;

test("messages that come one by one, each close upon the other, are left to gather", () => {
  expect(rests(...many(20, small))).toEqual(["8: 1", "16: 1"]);
});

test("a transaction of a few messages is read at once, however many come in a second", () => {
  const transaction = [[60, 0.5], small, small] as const;
  expect(rests(...many(1_000, transaction).flat())).toEqual([]);
});

test("while rests bring much, two messages by themselves are enough for the next, which is twice as long", () => {
  const begun = [...many(9, small), [20_000, 1], ...many(8, small)] as const;
  const after = (ms: number) => [...many(ms / 2, [20_000, 2] as const), small, small];
  const growing = [2, 4, 8, 16, 24].flatMap(after);
  expect(rests(...begun, ...growing)).toEqual([
    "8: 1",
    "17: 2",
    "20: 4",
    "24: 8",
    "30: 16",
    "40: 24",
    "54: 24",
  ]);
  // Where the stream is thin again, all is as it was.
  expect(rests(...begun, ...many(20, small))).toEqual(["8: 1", "17: 2", "19: 1", "27: 1", "35: 1"]);
});

test("a fast stream rests no longer than it takes to bring some windows", () => {
  const begun = [...many(9, small), [60_000, 1], ...many(8, small)] as const;
  const after = (ms: number) => [[200_000, ms], [200_000, 0.01], ...many(8, small)] as const;
  expect(rests(...begun, ...after(2), ...after(4), ...after(4)).at(-1)).toBe("47: 4");
});

test("what comes more slowly than some megabytes a second is looked at each millisecond", () => {
  const begun = [...many(9, small), [20_000, 1], ...many(8, small)] as const;
  expect(rests(...begun, [20_000, 10], small, small, ...many(8, small))).toEqual([
    "8: 1",
    "17: 2",
    "20: 1",
    "28: 1",
  ]);
});

test("where the sender had to wait for the reader, there is no rest for a while", () => {
  const overfull = [200_000, 1] as const;
  expect(rests(...many(9, small), overfull, ...many(14, small)).slice(0, 2)).toEqual(["8: 1", "17: 2"]);
  // What has been held once can be held again.
  const more = [...many(9, small), overfull, ...many(8, small), [100_000, 1], small, small] as const;
  expect(rests(...more).slice(0, 3)).toEqual(["8: 1", "17: 2", "20: 4"]);
});

test("a reader that is slower than the sender does not rest", () => {
  expect(rests(...many(1_000, [40_000, 0.01] as const))).toEqual([]);
});
