// A connector that copies everything in rounds, with a simulated clock: when a round starts, and what follows one that
// was missed, took too long, failed, or was not recorded. long, failed, or was not recorded.

import { expect, test } from "bun:test";
import type { Schedule } from "../../../src/connector/config/schedule.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { RunWork } from "../../../src/pipeline/run-work.ts";
import { RoundLoop } from "../../../src/runtime/run/round-loop.ts";
import { SnapshotRounds } from "../../../src/runtime/run/snapshot-rounds.ts";
import { sampleConfig } from "../../support/api/sample-connector.ts";

const minute = 60_000;

interface Life {
  readonly schedule: Schedule | null;
  readonly startsAt?: number;
  readonly begunAt?: number;
  readonly endedAt?: number;
  /** Minutes that each attempt takes; the last entry repeats. A failure is negative. */
  readonly attempts: readonly number[];
  readonly until: number;
  /** Minutes at which a task is created. */
  readonly tasks?: readonly number[];
  /** How many records the store refuses. */
  readonly refusals?: number;
}

/** Simulates a service's life. All times are minutes. */
async function live({
  schedule,
  startsAt = 0,
  begunAt,
  endedAt,
  attempts,
  until,
  tasks = [],
  refusals = 0,
}: Life) {
  let now = startsAt;
  let refused = 0;
  const stop = new AbortController();
  const log: string[] = [];
  const record = async (what: string, at: Date) => {
    if (refused++ < refusals) throw new MillraceError("state_unavailable", "The state is away.");
    log.push(`${what} ${at.getTime() / minute}`);
  };
  const date = (minutes?: number) => (minutes === undefined ? null : new Date(minutes * minute));
  const rounds = new SnapshotRounds(
    {
      config: { ...sampleConfig("nightly"), schedule },
      roundBegunAt: date(begunAt),
      roundEndedAt: date(endedAt),
    },
    { begin: (at) => record("begin", at), end: (at) => record("end", at) },
    () => now * minute,
  );
  const waiting = [...tasks];
  let made = 0;
  const loop: RoundLoop = new RoundLoop({
    rounds,
    attempts: async (work: RunWork) => {
      const minutes = attempts[Math.min(made++, attempts.length - 1)]!;
      log.push(`${work} ${now}`);
      now += Math.abs(minutes);
      if (now >= until) stop.abort();
      return minutes > 0 && !stop.signal.aborted;
    },
    begun: () => {},
    idle: (dueAt, isFailed) =>
      void log.push(`rest until ${dueAt && dueAt.getTime() / minute}${isFailed ? ", failed" : ""}`),
    failed: () => void log.push("not recorded"),
    nowMs: () => now * minute,
    sleep: async (ms) => {
      const [task = Number.POSITIVE_INFINITY] = waiting;
      const next = Math.min(now + ms / minute, task, until);
      now = next;
      if (next === task) {
        waiting.shift();
        loop.taskDue();
      }
      if (now >= until) stop.abort();
    },
    stop: stop.signal,
  });
  await loop.run();
  return log;
}

const every = (value: number): Schedule => ({ rate: { value, unit: "Minute" } });

test("the first round starts at once; the next is due by the start of the previous one", async () => {
  expect(await live({ schedule: every(15), attempts: [5], until: 31 })).toEqual([
    ...["begin 0", "copies 0", "end 5", "rest until 15"],
    ...["begin 15", "copies 15", "end 20", "rest until 30"],
    ...["begin 30", "copies 30"],
  ]);
});

test("without a schedule there is one round, and afterwards only tasks run", async () => {
  const log = await live({ schedule: null, attempts: [5], until: 200, tasks: [90] });
  expect(log).toEqual(["begin 0", "copies 0", "end 5", "rest until null", "tasks 90", "rest until null"]);
});

test("a round that took too long is followed at once, and rounds never overlap", async () => {
  expect(await live({ schedule: every(15), attempts: [40, 5], until: 56 })).toEqual([
    ...["begin 0", "copies 0", "end 40"],
    ...["begin 40", "copies 40", "end 45", "rest until 55"],
    ...["begin 55", "copies 55"],
  ]);
});

test("of several missed rounds one is made up, and an interrupted round continues", async () => {
  const missed = { schedule: every(15), startsAt: 1000, begunAt: 0, endedAt: 5, attempts: [5], until: 1016 };
  expect(await live(missed)).toEqual([
    ...["begin 1000", "copies 1000", "end 1005", "rest until 1015"],
    ...["begin 1015", "copies 1015"],
  ]);
  const cut = { schedule: every(15), startsAt: 7, begunAt: 0, attempts: [2], until: 12 };
  expect(await live(cut)).toEqual(["copies 7", "end 9", "rest until 15"]);
  const over = { schedule: null, startsAt: 7, begunAt: 0, endedAt: 5, attempts: [2], until: 12 };
  expect(await live(over)).toEqual(["rest until null"]);
});

test("a schedule by the calendar", async () => {
  const cron = { expression: "0 3 * * *", timezone: "UTC" };
  expect(await live({ schedule: { cron }, attempts: [30], until: 1700 })).toEqual([
    ...["begin 0", "copies 0", "end 30", "rest until 180"],
    ...["begin 180", "copies 180", "end 210", "rest until 1620"],
    ...["begin 1620", "copies 1620", "end 1650", "rest until 3060"],
  ]);
});

test("a round that fails permanently is repeated when the next is due; without a schedule the run ends", async () => {
  expect(await live({ schedule: every(15), attempts: [-1, 2], until: 20 })).toEqual([
    ...["begin 0", "copies 0", "rest until 16, failed"],
    ...["begin 16", "copies 16", "end 18", "rest until 31"],
  ]);
  expect(await live({ schedule: null, attempts: [-1], until: 20 })).toEqual(["begin 0", "copies 0"]);
});

test("tasks after a failed round run; if they fail as well, the next round decides", async () => {
  expect(await live({ schedule: every(15), attempts: [-1, 2], until: 20, tasks: [5, 9] })).toEqual([
    ...["begin 0", "copies 0", "rest until 16, failed"],
    ...["tasks 5", "rest until 16, failed", "tasks 9", "rest until 16, failed"],
    ...["begin 16", "copies 16", "end 18", "rest until 31"],
  ]);
  expect(await live({ schedule: every(15), attempts: [-1, -2, 2], until: 20, tasks: [5, 9] })).toEqual([
    ...["begin 0", "copies 0", "rest until 16, failed"],
    ...["tasks 5", "rest until 16, failed", "begin 16", "copies 16", "end 18", "rest until 31"],
  ]);
});

test("a failing task does not delay a round", async () => {
  expect(await live({ schedule: every(15), attempts: [5, -1, 2], until: 16, tasks: [14] })).toEqual([
    ...["begin 0", "copies 0", "end 5", "rest until 15"],
    ...["tasks 14", "begin 15", "copies 15"],
  ]);
  const early = { schedule: every(15), attempts: [2, -1, 2], until: 16, tasks: [5] };
  expect(await live(early)).toEqual([
    ...["begin 0", "copies 0", "end 2", "rest until 15"],
    ...["tasks 5", "rest until 15, failed", "begin 15", "copies 15"],
  ]);
});

test("a clock that was set back does not delay rounds by as much", async () => {
  const set = { schedule: every(15), startsAt: 100, begunAt: 9000, endedAt: 9005, attempts: [5], until: 116 };
  expect(await live(set)).toEqual(["rest until 115", "begin 115", "copies 115"]);
});

test("a round starts and ends when the state has recorded it", async () => {
  const log = await live({ schedule: null, attempts: [5], until: 20, refusals: 2 });
  const [first, second, begun, ...rest] = log;
  expect([first, second]).toEqual(["not recorded", "not recorded"]);
  expect(begun).toStartWith("begin 0.03");
  expect(rest.map((line) => line.split(" ")[0])).toEqual(["copies", "end", "rest"]);
});
