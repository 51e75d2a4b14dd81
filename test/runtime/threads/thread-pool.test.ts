// Threads that runs share: who sits where, who is taken along by what, and what is left.

import { expect, test } from "bun:test";
import type { FromReplicationWorker, ToReplicationWorker } from "../../../src/runtime/threads/messages.ts";
import { defaultThreads, ThreadPool } from "../../../src/runtime/threads/thread-pool.ts";
import { sampleConfig } from "../../support/sample-connector.ts";
import { waitFor } from "../../support/wait-for.ts";

const url = new URL("../../support/scripted.worker.ts", import.meta.url);
const graceMs = 100;

/** Sits down in the pool as `name`; `play` has the scripted worker begin. */
function sit(pool: ThreadPool<ToReplicationWorker, FromReplicationWorker>, name: string) {
  const said: FromReplicationWorker[] = [];
  let pulses = 0;
  const line = pool.open(name, { said: (message) => said.push(message), pulse: () => pulses++ });
  let death: string | null = null;
  void line.died.then(({ message }) => {
    death = message;
  });
  return {
    line,
    said,
    get death() {
      return death;
    },
    get pulses() {
      return pulses;
    },
    async play(script: string) {
      await line.ready;
      const connector = { ...sampleConfig(name), name: script };
      const rest = { work: "changes", initialized: false, isAfterRefusal: false, webhook: null } as const;
      line.post({ type: "start", connector, runId: name, owner: "me", ...rest });
      if (script !== "crash") await waitFor("its first word", () => said.length > 0);
    },
  };
}

const newPool = (most: number) => new ThreadPool<ToReplicationWorker, FromReplicationWorker>(url, most);

test("there are two threads of a kind for each core, and some on the smallest machine", () => {
  expect([1, 2, 3, 16].map(defaultThreads)).toEqual([4, 4, 6, 32]);
});

test("runs have threads of their own first, and then the one with the fewest in it", async () => {
  const pool = newPool(2);
  const lines = ["a", "b", "c", "d", "e"].map((name) => sit(pool, name));
  await Promise.all(lines.map(({ line }) => line.ready));
  expect(pool.seats).toEqual([3, 2]);
  await Promise.all([lines[0], lines[2]].map((each) => each?.line.close(graceMs)));
  expect(pool.seats).toEqual([1, 2]);
  const late = sit(pool, "f");
  expect(pool.seats).toEqual([2, 2]);
  await Promise.all([lines[1], lines[3], lines[4], late].map((each) => each?.line.close(graceMs)));
  expect(pool.seats).toEqual([]);
  expect([...lines, late].map(({ death }) => death)).toEqual(lines.concat(late).map(() => null));
});

test("each seat hears what is said to it, and no other", async () => {
  const pool = newPool(1);
  const [a, b] = [sit(pool, "a"), sit(pool, "b")];
  await a.play("stay");
  await b.play("unreachable");
  await waitFor("its last word", () => b.said.at(-1)?.type === "ended");
  expect(a.said.map(({ type }) => type)).toEqual(["status", "log"]);
  await b.line.close(graceMs);
  a.line.post({ type: "stop" });
  await waitFor("the answer of who is left", () => a.said.at(-1)?.type === "ended");
  expect(b.said).toHaveLength(3);
  await a.line.close(graceMs);
});

test("who brings a thread down takes the others along once", async () => {
  const pool = newPool(1);
  const [a, b] = [sit(pool, "a"), sit(pool, "b")];
  await a.play("stay");
  await b.play("crash");
  await waitFor("both deaths", () => a.death !== null && b.death !== null);
  expect([a.death, b.death]).toEqual([
    "The worker thread a failed: error: the script says so",
    "The worker thread b failed: error: the script says so",
  ]);
  await Promise.all([a.line.close(graceMs), b.line.close(graceMs)]);

  const again = [sit(pool, "a"), sit(pool, "b"), sit(pool, "c"), sit(pool, "d")] as const;
  const [first, second, third] = again;
  // Those who were in it sit alone, others share as ever.
  expect(pool.seats).toEqual([1, 1, 2]);
  await first.play("stay");
  await second.play("crash");
  await waitFor("its death", () => second.death !== null);
  first.line.post({ type: "stop" });
  await waitFor("the answer of who is left", () => first.said.at(-1)?.type === "ended");
  expect([first.death, third.death]).toEqual([null, null]);
  await Promise.all(again.map(({ line }) => line.close(graceMs)));
  expect(pool.seats).toEqual([]);
});

test("a seat that is not left goes with its thread, and the others hear why", async () => {
  const pool = newPool(1);
  const [a, b] = [sit(pool, "a"), sit(pool, "b")];
  await a.play("stay");
  await b.play("deaf");
  await b.line.close(graceMs);
  expect(a.death).toBe("The worker thread a was ended, as b could not be stopped in it.");
  await a.line.close(graceMs);
  expect(pool.seats).toEqual([]);
});

test("who sits down beside one that is slow to leave is not taken along at once", async () => {
  const pool = newPool(1);
  const slow = sit(pool, "slow");
  await slow.play("slow to leave");
  const closing = slow.line.close(graceMs);
  const late = sit(pool, "late");
  await late.play("stay");
  await closing;
  expect(late.death).toBeNull();
  await late.line.close(graceMs);
  expect(pool.seats).toEqual([]);
});

test("threads of those who sit alone take no place from the others, and they are let in again", async () => {
  const pool = newPool(2);
  const first = ["a", "b", "c", "d"].map((name) => sit(pool, name));
  await Promise.all(first.map(({ line }) => line.ready));
  await first[0]?.play("crash");
  await waitFor("the death of both in it", () => first[0]?.death !== null && first[2]?.death !== null);
  await Promise.all(first.map(({ line }) => line.close(graceMs)));
  const second = ["a", "c", "e", "f"].map((name) => sit(pool, name));
  expect(pool.seats).toEqual([1, 1, 1, 1]);
  await Promise.all(second.map(({ line }) => line.close(graceMs)));
  const third = ["a", "c", "e"].map((name) => sit(pool, name));
  expect(pool.seats).toEqual([2, 1]);
  await Promise.all(third.map(({ line }) => line.close(graceMs)));
});

test("an answer that comes behind the end of a run is not said to anybody", async () => {
  const pool = newPool(1);
  const [gone, other] = [sit(pool, "gone"), sit(pool, "other")];
  await gone.line.ready;
  await gone.line.close(graceMs);
  await gone.play("crash");
  await other.play("stay");
  expect([gone.said, other.death]).toEqual([[], null]);
  await other.line.close(graceMs);
});

test("one alone that is not left is ended within its own bound", async () => {
  const alone = sit(newPool(1), "alone");
  await alone.play("deaf");
  const beganAt = performance.now();
  await alone.line.close(graceMs);
  expect(performance.now() - beganAt).toBeLessThan(3_000);
});

test("who leaves while the thread is loading keeps nobody from sitting down", async () => {
  const pool = newPool(1);
  const early = sit(pool, "early");
  const closing = early.line.close(graceMs);
  const late = sit(pool, "late");
  await closing;
  await late.play("stay");
  expect(late.death).toBeNull();
  await late.line.close(graceMs);
  expect(pool.seats).toEqual([]);
});

test("every seat is told that its thread lives", async () => {
  const pool = newPool(1);
  const seats = [sit(pool, "a"), sit(pool, "b")];
  await waitFor("a pulse for each", () => seats.every(({ pulses }) => pulses > 0), { timeoutMs: 30_000 });
  await Promise.all(seats.map(({ line }) => line.close(graceMs)));
});
