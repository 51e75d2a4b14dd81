// Worker threads that runs share: the assignment of runs, the effects of a crash, and what remains.

import { expect, test } from "bun:test";
import type { FromReplicationWorker, ToReplicationWorker } from "../../../src/runtime/threads/messages.ts";
import { defaultThreads, ThreadPool } from "../../../src/runtime/threads/thread-pool.ts";
import { sampleConfig } from "../../support/api/sample-connector.ts";
import { waitFor } from "../../support/wait-for.ts";

const url = new URL("../../support/runtime/scripted.worker.ts", import.meta.url);
const graceMs = 100;
/** Enough for a thread on a busy machine. */
const ampleMs = 20_000;

/** Opens an assignment in the pool as `name`. `play` makes the scripted worker start. */
function assign(pool: ThreadPool<ToReplicationWorker, FromReplicationWorker>, name: string) {
  const messages: FromReplicationWorker[] = [];
  let pulses = 0;
  const channel = pool.open(name, { message: (message) => messages.push(message), pulse: () => pulses++ });
  let death: string | null = null;
  void channel.died.then(({ message }) => {
    death = message;
  });
  return {
    channel,
    messages,
    get death() {
      return death;
    },
    get pulses() {
      return pulses;
    },
    async play(script: string) {
      await channel.ready;
      const connector = { ...sampleConfig(name), name: script };
      const rest = {
        work: "changes",
        initialized: false,
        resumes: false,
        isAfterRefusal: false,
        counted: null,
        delivery: null,
      } as const;
      channel.post({ type: "start", connector, runId: name, owner: "me", term: null, ...rest });
      if (script !== "crash") await waitFor("its first word", () => messages.length > 0);
    },
  };
}

const newPool = (most: number) => new ThreadPool<ToReplicationWorker, FromReplicationWorker>(url, most);

test("there are two threads of a kind per core, and more on the smallest machine", () => {
  expect([1, 2, 3, 16].map(defaultThreads)).toEqual([4, 4, 6, 32]);
});

test("runs get their own thread first, then the thread with the fewest assignments", async () => {
  const pool = newPool(2);
  const channels = ["a", "b", "c", "d", "e"].map((name) => assign(pool, name));
  await Promise.all(channels.map(({ channel }) => channel.ready));
  expect(pool.assignmentCounts).toEqual([3, 2]);
  await Promise.all([channels[0], channels[2]].map((each) => each?.channel.close(graceMs)));
  expect(pool.assignmentCounts).toEqual([1, 2]);
  const late = assign(pool, "f");
  expect(pool.assignmentCounts).toEqual([2, 2]);
  await Promise.all(
    [channels[1], channels[3], channels[4], late].map((each) => each?.channel.close(graceMs)),
  );
  expect(pool.assignmentCounts).toEqual([]);
  expect([...channels, late].map(({ death }) => death)).toEqual(channels.concat(late).map(() => null));
});

test("each assignment receives its own messages, and no others", async () => {
  const pool = newPool(1);
  const [a, b] = [assign(pool, "a"), assign(pool, "b")];
  await a.play("stay");
  await b.play("unreachable");
  await waitFor("its last word", () => b.messages.at(-1)?.type === "ended");
  expect(a.messages.map(({ type }) => type)).toEqual(["status", "log"]);
  await b.channel.close(graceMs);
  a.channel.post({ type: "stop" });
  await waitFor("the answer of who is left", () => a.messages.at(-1)?.type === "ended");
  expect(b.messages).toHaveLength(3);
  await a.channel.close(graceMs);
});

test("a run that crashes its thread interrupts the others once", async () => {
  const pool = newPool(1);
  const [a, b] = [assign(pool, "a"), assign(pool, "b")];
  await a.play("stay");
  await b.play("crash");
  await waitFor("both deaths", () => a.death !== null && b.death !== null);
  expect([a.death, b.death]).toEqual([
    "The worker thread a failed: error: the script says so",
    "The worker thread b failed: error: the script says so",
  ]);
  await Promise.all([a.channel.close(graceMs), b.channel.close(graceMs)]);

  const again = [assign(pool, "a"), assign(pool, "b"), assign(pool, "c"), assign(pool, "d")] as const;
  const [first, second, third] = again;
  // Those in the crashed thread get their own threads, and others share as before.
  expect(pool.assignmentCounts).toEqual([1, 1, 2]);
  await first.play("stay");
  await second.play("crash");
  await waitFor("its death", () => second.death !== null);
  first.channel.post({ type: "stop" });
  await waitFor("the answer of who is left", () => first.messages.at(-1)?.type === "ended");
  expect([first.death, third.death]).toEqual([null, null]);
  await Promise.all(again.map(({ channel }) => channel.close(graceMs)));
  expect(pool.assignmentCounts).toEqual([]);
});

test("an assignment that does not stop is terminated with its thread, and the others get the reason", async () => {
  const pool = newPool(1);
  const [a, b] = [assign(pool, "a"), assign(pool, "b")];
  await a.play("stay");
  await b.play("deaf");
  await b.channel.close(graceMs);
  expect(a.death).toBe("The worker thread a was ended, as b could not be stopped in it.");
  await a.channel.close(graceMs);
  expect(pool.assignmentCounts).toEqual([]);
});

test("a run in the same thread as one that is slow to stop is not terminated at once", async () => {
  const pool = newPool(1);
  const slow = assign(pool, "slow");
  await slow.play("slow to stop");
  const closing = slow.channel.close(graceMs);
  const late = assign(pool, "late");
  await late.play("stay");
  await closing;
  expect(late.death).toBeNull();
  await late.channel.close(graceMs);
  expect(pool.assignmentCounts).toEqual([]);
});

test("exclusive threads do not count towards the limit, and isolation ends", async () => {
  const pool = newPool(2);
  const first = ["a", "b", "c", "d"].map((name) => assign(pool, name));
  await Promise.all(first.map(({ channel }) => channel.ready));
  await first[0]?.play("crash");
  await waitFor("the death of both in it", () => first[0]?.death !== null && first[2]?.death !== null);
  await Promise.all(first.map(({ channel }) => channel.close(graceMs)));
  const second = ["a", "c", "e", "f"].map((name) => assign(pool, name));
  expect(pool.assignmentCounts).toEqual([1, 1, 1, 1]);
  // One that does not end within the grace is ended, and isolates again.
  await Promise.all(second.map(({ channel }) => channel.ready));
  await Promise.all(second.map(({ channel }) => channel.close(ampleMs)));
  const third = ["a", "c", "e"].map((name) => assign(pool, name));
  expect(pool.assignmentCounts).toEqual([2, 1]);
  await Promise.all(third.map(({ channel }) => channel.close(graceMs)));
});

test("a reply after the end of a run reaches nobody", async () => {
  const pool = newPool(1);
  const [gone, other] = [assign(pool, "gone"), assign(pool, "other")];
  await gone.channel.ready;
  await gone.channel.close(graceMs);
  await gone.play("crash");
  await other.play("stay");
  expect([gone.messages, other.death]).toEqual([[], null]);
  await other.channel.close(graceMs);
});

test("an assignment alone in its thread is terminated within its own time limit", async () => {
  const alone = assign(newPool(1), "alone");
  await alone.play("deaf");
  const beganAt = performance.now();
  await alone.channel.close(graceMs);
  expect(performance.now() - beganAt).toBeLessThan(3_000);
});

test("a run that ends while its thread is loading does not block other assignments", async () => {
  const pool = newPool(1);
  const early = assign(pool, "early");
  const closing = early.channel.close(graceMs);
  const late = assign(pool, "late");
  await closing;
  await late.play("stay");
  expect(late.death).toBeNull();
  await late.channel.close(graceMs);
  expect(pool.assignmentCounts).toEqual([]);
});

test("every assignment receives the pulses of its thread", async () => {
  const pool = newPool(1);
  const assignments = [assign(pool, "a"), assign(pool, "b")];
  await waitFor("a pulse for each", () => assignments.every(({ pulses }) => pulses > 0), {
    timeoutMs: 30_000,
  });
  await Promise.all(assignments.map(({ channel }) => channel.close(graceMs)));
});

test("a run that has crashed a thread stays alone when another thread ends in order that was begun for it", async () => {
  const pool = newPool(2);
  const open = (name: string) => assign(pool, name);
  const [first, beside, sharing, other] = ["a", "b", "c", "d"].map(open) as [
    ReturnType<typeof open>,
    ReturnType<typeof open>,
    ReturnType<typeof open>,
    ReturnType<typeof open>,
  ];
  await Promise.all([first, beside, sharing, other].map(({ channel }) => channel.ready));
  // Its next attempt is in the other thread.
  await Promise.all([first, other].map(({ channel }) => channel.close(graceMs)));
  const filling = open("e");
  const again = open("a");
  await again.play("crash");
  await waitFor("the death of both in it", () => again.death !== null && beside.death !== null);
  await Promise.all([sharing, filling, again, beside].map(({ channel }) => channel.close(graceMs)));
  expect(pool.assignmentCounts).toEqual([]);
  const last = ["a", "f", "g"].map(open);
  expect(pool.assignmentCounts).toEqual([1, 1, 1]);
  await Promise.all(last.map(({ channel }) => channel.close(graceMs)));
});
