// When a stream's reader pauses so that the kernel coalesces messages, with simulated times.

import { expect, test } from "bun:test";
import { ReadCoalescer } from "../../../src/connection/copy/read-coalescer.ts";

/**
 * The pauses after these chunks: after which chunk, and for how long. Each chunk has a size and a distance to the
 * previous one.
 */
function pauses(...chunks: readonly (readonly [bytes: number, afterMs: number])[]): string[] {
  const coalescer = new ReadCoalescer();
  let now = 1_000;
  return chunks.flatMap(([bytes, afterMs], i) => {
    now += afterMs;
    const ms = coalescer.pauseMs(bytes, now);
    return ms > 0 ? [`${i}: ${Math.round(ms * 10) / 10}`] : [];
  });
}

const many = <T>(count: number, chunk: T) => Array.from({ length: count }, () => chunk);
const small = [100, 0.01] as const;

test("single messages in close succession are coalesced", () => {
  expect(pauses(...many(20, small))).toEqual(["8: 1", "16: 1"]);
});

test("a transaction of a few messages is read at once, however many arrive per second", () => {
  const transaction = [[60, 0.5], small, small] as const;
  expect(pauses(...many(1_000, transaction).flat())).toEqual([]);
});

test("while pauses collect much, two single messages are enough for the next pause, which is twice as long", () => {
  const begun = [...many(9, small), [20_000, 1], ...many(8, small)] as const;
  const after = (ms: number) => [...many(ms / 2, [20_000, 2] as const), small, small];
  const growing = [2, 4, 8, 16, 24].flatMap(after);
  expect(pauses(...begun, ...growing)).toEqual([
    "8: 1",
    "17: 2",
    "20: 4",
    "24: 8",
    "30: 16",
    "40: 24",
    "54: 24",
  ]);
  // Once the stream is slow again, everything is as before.
  expect(pauses(...begun, ...many(20, small))).toEqual(["8: 1", "17: 2", "19: 1", "27: 1", "35: 1"]);
});

test("with a fast stream, pauses last no longer than some windows take to arrive", () => {
  const begun = [...many(9, small), [60_000, 1], ...many(8, small)] as const;
  const after = (ms: number) => [[200_000, ms], [200_000, 0.01], ...many(8, small)] as const;
  expect(pauses(...begun, ...after(2), ...after(4), ...after(4)).at(-1)).toBe("47: 4");
});

test("a stream below some megabytes per second is read every millisecond", () => {
  const begun = [...many(9, small), [20_000, 1], ...many(8, small)] as const;
  expect(pauses(...begun, [20_000, 10], small, small, ...many(8, small))).toEqual([
    "8: 1",
    "17: 2",
    "20: 1",
    "28: 1",
  ]);
});

test("after the sender had to wait for the reader, there is no pause for a while", () => {
  const overfull = [200_000, 1] as const;
  expect(pauses(...many(9, small), overfull, ...many(14, small)).slice(0, 2)).toEqual(["8: 1", "17: 2"]);
  // Pauses are possible again.
  const more = [...many(9, small), overfull, ...many(8, small), [100_000, 1], small, small] as const;
  expect(pauses(...more).slice(0, 3)).toEqual(["8: 1", "17: 2", "20: 4"]);
});

test("a reader that is slower than the sender does not pause", () => {
  expect(pauses(...many(1_000, [40_000, 0.01] as const))).toEqual([]);
});
