// Which threads are alive, by their pulses compared with the main thread's ticks, and the delay of an event loop.

import { expect, test } from "bun:test";
import { threadPulse } from "../../../src/measure/thread-pulse.ts";
import { ThreadWatch } from "../../../src/runtime/threads/thread-watch.ts";
import { waitFor } from "../../support/wait-for.ts";

const everyMs = 20;

test("a worker without a pulse is stuck until it sends one or its run ends", async () => {
  using watch = new ThreadWatch(everyMs);
  watch.began("a", ["replication", "webhook"]);
  watch.began("b", ["replication"]);
  expect(watch.stuck()).toEqual([]);
  const alive = setInterval(() => watch.pulse("a", "webhook", 3), everyMs / 2);
  await waitFor("two that are stuck", () => watch.stuck().length === 2);
  // The reported delay is the time of the silence.
  const silent = watch.loopDelays().find(({ connector }) => connector === "b");
  expect(silent?.loopDelayMs).toBeGreaterThanOrEqual(everyMs * 5);
  expect(watch.stuck().map(({ connector, thread }) => [connector, thread])).toEqual([
    ["a", "replication"],
    ["b", "replication"],
  ]);
  watch.pulse("a", "replication", 700);
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
  // A pulse of a run that has ended belongs to nobody.
  watch.pulse("b", "replication", 1);
  expect(watch.loopDelays()).toHaveLength(3);
  clearInterval(alive);
});

test("while the main thread is busy, no worker counts as stuck", () => {
  using watch = new ThreadWatch(everyMs);
  watch.began("a", ["replication"]);
  const until = performance.now() + everyMs * 20;
  while (performance.now() < until);
  expect(watch.stuck()).toEqual([]);
});

test("a pulse contains the longest delay since the previous one", async () => {
  const delays: number[] = [];
  using _pulse = threadPulse(
    (loopDelayMs) => delays.push(loopDelayMs),
    () => performance.now(),
    everyMs * 5,
  );
  await waitFor("a pulse", () => delays.length > 0);
  const until = performance.now() + 400;
  while (performance.now() < until);
  const before = delays.length;
  await waitFor("two more", () => delays.length === before + 2);
  expect(Math.max(...delays)).toBeGreaterThan(300);
});
