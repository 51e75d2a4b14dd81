import { expect, test } from "bun:test";
import { type Checkpoint, isDone } from "../../src/change/checkpoint.ts";
import { lsn } from "../../src/change/lsn.ts";

const at = (commitLsn: bigint, ordinal: number) => ({ commitLsn: lsn(commitLsn), ordinal });
const whole: Checkpoint = { resumeLsn: lsn(100n), partial: null, lastVersion: 0n };

test("transactions before the checkpoint are done; one whose commit record starts at it is not", () => {
  expect(isDone(whole, at(99n, 5))).toBe(true);
  expect(isDone(whole, at(100n, 0))).toBe(false);
  expect(isDone(whole, at(101n, 0))).toBe(false);
});

test("of a partly done transaction, the ordinals up to the last durable one are done", () => {
  const partial: Checkpoint = { ...whole, partial: at(200n, 7) };
  expect(isDone(partial, at(150n, 99))).toBe(true);
  expect(isDone(partial, at(200n, 7))).toBe(true);
  expect(isDone(partial, at(200n, 8))).toBe(false);
  expect(isDone(partial, at(201n, 0))).toBe(false);
});
