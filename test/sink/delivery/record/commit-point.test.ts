import { beforeEach, expect, test } from "bun:test";
import { CommitPoint } from "../../../../src/sink/delivery/record/commit-point.ts";

let isBetween: boolean;
let settled: number;
let nowMs: number;
let point: CommitPoint;

beforeEach(() => {
  isBetween = true;
  settled = 0;
  nowMs = 0;
  point = new CommitPoint({
    commit: () => undefined,
    isBetween: () => isBetween,
    settle: () => void settled++,
    withinMs: 30,
    monotonic: () => nowMs,
  });
});

const isPending = async (promise: Promise<unknown>): Promise<boolean> => {
  let isOver = false;
  promise.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  await Bun.sleep(1);
  return !isOver;
};

test("a commit is made between two transactions, and takes all up to there", () => {
  isBetween = false;
  point.want();
  expect(point.isHere).toBe(false);
  isBetween = true;
  expect(point.isHere).toBe(true);
  point.take();
  expect([settled, point.isWanted]).toEqual([1, false]);
});

test("whoever waits hears of each change", async () => {
  for (const change of [() => point.wake(), () => point.hurry(), () => point.take()]) {
    const waiting = point.change();
    expect(await isPending(waiting)).toBe(true);
    change();
    expect(await isPending(waiting)).toBe(false);
  }
});

test("a hurried commit is made amid a transaction, once", () => {
  isBetween = false;
  point.want();
  point.hurry();
  expect(point.isHere).toBe(true);
  point.take();
  point.want();
  expect(point.isHere).toBe(false);
});

test("a commit is made amid a transaction as long as the stream is held", async () => {
  isBetween = false;
  point.want();
  const waiting = point.change();
  point.hold(true);
  await waiting;
  expect(point.isHere).toBe(true);
  point.hold(false);
  expect(point.isHere).toBe(false);
});

test("no commit is made while the record lacks a chunk, and no chunk begins while a commit waits", async () => {
  await point.beginChunk();
  expect(point.isFree).toBe(false);
  point.want();
  point.hurry();
  expect(point.isHere).toBe(false);
  const next = point.beginChunk();
  point.endChunk();
  expect(point.isHere).toBe(true);
  expect(await isPending(next)).toBe(true);
  point.take();
  expect(await isPending(next)).toBe(false);
  expect(point.isFree).toBe(false);
});

test("what takes too long is committed in parts, and who waits is woken for it", async () => {
  isBetween = false;
  await point.beginChunk();
  point.want();
  const waiting = point.change();
  nowMs = 29;
  expect(point.isHere).toBe(false);
  nowMs = 30;
  expect(point.isHere).toBe(true);
  await Bun.sleep(40);
  expect(await isPending(waiting)).toBe(false);
  point.take();
  // The time of the next one begins anew.
  point.want();
  expect(point.isHere).toBe(false);
});

test("what wakes a commit that waits does not give the transaction more time", async () => {
  const begun = performance.now();
  const timed = new CommitPoint({
    commit: () => undefined,
    isBetween: () => false,
    settle: () => undefined,
    withinMs: 1_200,
    monotonic: () => performance.now(),
  });
  timed.want();
  setTimeout(() => timed.wake(), 1_000);
  while (!timed.isHere) await timed.change();
  expect(performance.now() - begun).toBeLessThan(2_000);
});

test("rows of a chunk that has ended are as old as they were: the time of the chunk counts on", async () => {
  isBetween = false;
  await point.beginChunk();
  point.want();
  point.endChunk();
  expect(point.isHere).toBe(false);
  await Bun.sleep(40);
  expect(point.isHere).toBe(true);
  point.take();
  await Bun.sleep(40);
  // No chunk has begun since.
  point.want();
  expect(point.isHere).toBe(false);
});

test("once it was given up nobody waits", async () => {
  const waiting = point.change();
  point.giveUp();
  await waiting;
  await expect(point.change()).rejects.toThrow("the sink is closed");
});
