// When the reader of a stream lets the kernel gather messages, by injected times.

import { expect, test } from "bun:test";
import { Gathering } from "../../../src/source/postgres/gathering.ts";

/** Which of the chunks, each of so many bytes and so long after the one before, are followed by a rest. */
function rests(...chunks: readonly (readonly [bytes: number, afterMs: number])[]): readonly number[] {
  const gathering = new Gathering();
  let now = 1_000;
  return chunks.flatMap(([bytes, afterMs], i) => {
    now += afterMs;
    return gathering.isRestDue(bytes, now) ? [i] : [];
  });
}

const many = <T>(count: number, chunk: T) => Array.from({ length: count }, () => chunk);
const small = [100, 0.01] as const;
const gathered = [40_000, 1] as const;
const overfull = [200_000, 1] as const;

test("messages that come one by one, each close upon the other, are left to gather", () => {
  expect(rests(...many(20, small))).toEqual([8, 16]);
});

test("a transaction of a few messages is read at once, however many come in a second", () => {
  const transaction = [[60, 0.5], small, small] as const;
  expect(rests(...many(1_000, transaction).flat())).toEqual([]);
});

test("while rests bring much, one message by itself is enough for the next", () => {
  const begun = many(9, small);
  const cycle = [gathered, small] as const;
  expect(rests(...begun, ...many(3, cycle).flat())).toEqual([8, 10, 12, 14]);
  // What was on its way when the rest began comes by itself, before what it brought.
  expect(rests(...begun, small, gathered, small)).toEqual([8, 11]);
});

test("where the sender had to wait for the reader, there is no rest for a while", () => {
  expect(rests(...many(9, small), overfull, ...many(100, small))).toEqual([8, 73, 81, 89, 97, 105]);
});

test("a reader that is slower than the sender does not rest", () => {
  expect(rests(...many(1_000, [40_000, 0.01] as const))).toEqual([]);
});
