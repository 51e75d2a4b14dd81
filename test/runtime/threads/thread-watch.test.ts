// Which threads are alive: signs of life against beats of the main thread, and the delay of an event loop.

import { expect, test } from "bun:test";
import { threadPulse } from "../../../src/measure/thread-pulse.ts";
import { ThreadWatch } from "../../../src/runtime/threads/thread-watch.ts";
import { waitFor } from "../../support/wait-for.ts";

const everyMs = 20;

test("a worker without a sign of life is stuck, until it gives one or its run ends", async () => {
  using watch = new ThreadWatch(everyMs);
  watch.began("a", ["replication", "webhook"]);
  watch.began("b", ["replication"]);
  expect(watch.stuck()).toEqual([]);
  const alive = setInterval(() => watch.heard("a", "webhook", 3), everyMs / 2);
  await waitFor("two that are stuck", () => watch.stuck().length === 2);
  // As late as it has been silent, for whoever watches the delays.
  const silent = watch.loopDelays().find(({ connector }) => connector === "b");
  expect(silent?.loopDelayMs).toBeGreaterThanOrEqual(everyMs * 5);
  expect(watch.stuck().map(({ connector, thread }) => [connector, thread])).toEqual([
    ["a", "replication"],
    ["b", "replication"],
  ]);
  watch.heard("a", "replication", 700);
  expect(watch.stuck().map(({ connector }) => connector)).toEqual(["b"]);
  watch.ended("b");
  expect(watch.stuck()).toEqual([]);
  expect(
    watch.loopDelays().map(({ connector, thread, loopDelayMs }) => [connector, thread, loopDelayMs]),
  ).toEqual([
    [null, "main", expect.any(Number)],
    ["a", "replication", 700],
    ["a", "webhook", 3],
  ]);
  // One of a run that has ended is nobody's.
  watch.heard("b", "replication", 1);
  expect(watch.loopDelays()).toHaveLength(3);
  clearInterval(alive);
});

test("while the main thread computes, no worker is missed", () => {
  using watch = new ThreadWatch(everyMs);
  watch.began("a", ["replication"]);
  const until = performance.now() + everyMs * 20;
  while (performance.now() < until);
  expect(watch.stuck()).toEqual([]);
});

test("a pulse tells the longest delay since the last one", async () => {
  const told: number[] = [];
  using _pulse = threadPulse(
    (loopDelayMs) => told.push(loopDelayMs),
    () => performance.now(),
    everyMs * 5,
  );
  await waitFor("a pulse", () => told.length > 0);
  const until = performance.now() + 400;
  while (performance.now() < until);
  const before = told.length;
  await waitFor("two more", () => told.length === before + 2);
  expect(Math.max(...told)).toBeGreaterThan(300);
});
