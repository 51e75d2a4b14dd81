// One run across its attempts, with a simulated clock: when it is retried, when it fails, and what the status shows
// meanwhile.

import { expect, test } from "bun:test";
import type { Status } from "../../../src/connector/status.ts";
import type { ErrorCode } from "../../../src/errors/error-codes.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { RunEvents } from "../../../src/runtime/run/connector-run.ts";
import { type FailureHealth, RunLoop } from "../../../src/runtime/run/run-loop.ts";
import type { RunMetrics } from "../../../src/runtime/threads/messages.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";

const initialize: Status = {
  state: { initialize: { sub_state: "connect", commands: [] } },
  status: { start: {} },
};
const realtime: Status = { state: { realtime: { name: "slot" } }, status: { start: {} } };

interface Step {
  /** `no thread`: the attempt cannot even start. */
  readonly code: ErrorCode | "no thread" | null;
  readonly lastsMs: number;
  readonly reports?: readonly Status[];
  /** Rows became durable after the last report. */
  readonly moves?: boolean;
  /** The wall clock is set meanwhile. */
  readonly clockStepMs?: number;
}

/** Plays the steps, the last one repeatedly, and returns the reports. */
async function play(
  steps: readonly Step[],
  stopAfter = Number.POSITIVE_INFINITY,
  mayRun: (nowMs: number) => boolean = () => true,
  term: number | null = 3,
) {
  let nowMs = 0;
  let attempts = 0;
  let clockMs = 0;
  const failures: FailureHealth[] = [];
  const seen: Status[] = [];
  const initialized: boolean[] = [];
  const begunMs: number[] = [];
  const id = "orders";
  const events = {
    status: (_: unknown, status: Status) => seen.push(status),
    initialized: async () => {},
    metrics: () => {},
  } as unknown as RunEvents;
  const stored = { ...storedConnector(id), runId: "run" };
  const loop: RunLoop = new RunLoop(stored, {
    events,
    startRun: (request, events) => {
      initialized.push(request.initialized);
      begunMs.push(nowMs);
      expect(request.term).toBe(term);
      const step = steps[Math.min(attempts, steps.length - 1)] ?? { code: null, lastsMs: 0 };
      attempts += 1;
      const { code } = step;
      if (code === "no thread") throw new Error("There is no thread left.");
      const ended = (async () => {
        await events.initialized();
        for (const status of step.reports ?? []) events.status("Source", status);
        nowMs += step.lastsMs;
        clockMs += step.clockStepMs ?? 0;
        if (step.moves) events.metrics({ rowsDurable: 1, snapshot: { tablesDone: 0 } } as RunMetrics);
        return code && new MillraceError(code, "It broke.");
      })();
      return { ended, offerTask: () => {}, cancelTask: () => {}, stop: () => {}, cut: () => {} };
    },
    rounds: null,
    term,
    mayRun: () => mayRun(nowMs),
    attemptChanged: () => {},
    idle: () => {},
    failed: (_error, health) => failures.push(health),
    wentOn: () => {},
    nowMs: () => nowMs + clockMs,
    monotonicMs: () => nowMs,
    random: () => 0,
    sleep: async (ms) => {
      nowMs += ms;
      if (attempts >= stopAfter) loop.stop();
    },
  });
  await loop.ended;
  return { loop, attempts, failures, seen, initialized, begunMs, nowMs };
}

test("one that was told to resume does not begin under a configuration that came later and makes no copies", async () => {
  const { config, ...stored } = storedConnector("orders");
  const { postgres } = config.source;
  if (!postgres) throw new Error("its source is Postgres");
  const logical = postgres.replication_type.logical_replication;
  const replication_type = { logical_replication: { ...logical, skip_snapshots: true } } as never;
  const patched = { ...config, source: { postgres: { ...postgres, replication_type } } };
  const failures: FailureHealth[] = [];
  const loop = new RunLoop({ ...stored, config: patched, resumes: true }, {
    startRun: () => {
      throw new Error("it has begun");
    },
    rounds: null,
    term: null,
    mayRun: () => true,
    nowMs: () => 0,
    monotonicMs: () => 0,
    random: () => 0,
    sleep: async () => {},
    failed: (_error: unknown, health: FailureHealth) => failures.push(health),
    events: {} as RunEvents,
  } as never);
  await loop.ended;
  expect(failures).toEqual([{ failed: { reason: expect.stringContaining("skip_snapshots") } }]);
});

test("no attempt begins while the lease does not hold", async () => {
  const steps = [
    { code: "sink_connection_lost", lastsMs: 1_000 },
    { code: null, lastsMs: 5 },
  ] as const;
  const away = (nowMs: number) => nowMs < 500 || (nowMs >= 1_500 && nowMs < 60_000);
  const { begunMs, attempts } = await play(steps, undefined, (nowMs) => !away(nowMs));
  expect(attempts).toBe(2);
  expect(begunMs[0]).toBeWithin(500, 1_000);
  expect(begunMs[1]).toBeWithin(60_000, 61_000);
});

test("what an attempt has met when its lease was over is not told as a failure", async () => {
  const steps = [
    { code: "slot_ahead", lastsMs: 1_000 },
    { code: null, lastsMs: 5 },
  ] as const;
  const { attempts, failures } = await play(steps, undefined, (nowMs) => nowMs < 500 || nowMs >= 5_000);
  expect([attempts, failures]).toEqual([2, []]);
});

test.each([
  ["an older replica", 3],
  ["what it had asked itself, and what came late,", null],
])("a producer that %s has fenced begins again", async (_, term) => {
  const steps = [
    { code: "kafka_fenced", lastsMs: 1_000 },
    { code: null, lastsMs: 5 },
  ] as const;
  const { attempts, failures } = await play(steps, undefined, () => true, term);
  expect([attempts, failures]).toEqual([2, [{ retry: { attempt: 1, reason: "It broke." } }]]);
});

test("a producer that is fenced again and again has met another service, and the run ends", async () => {
  const { attempts, failures } = await play([{ code: "kafka_fenced", lastsMs: 20_000, moves: true }]);
  expect([attempts, failures.at(-1)]).toEqual([4, { failed: { reason: "It broke." } }]);
  const rarely = await play([{ code: "kafka_fenced", lastsMs: 400_000, moves: true }], 10);
  expect(rarely.attempts).toBe(10);
});

test("a run that waits for its lease can be stopped", async () => {
  let looks = 0;
  const stop = new Promise<void>((resolve) => {
    const stored = { ...storedConnector("orders"), runId: "run" };
    const loop: RunLoop = new RunLoop(stored, {
      events: {} as RunEvents,
      startRun: () => {
        throw new Error("an attempt without the lease");
      },
      term: 1,
      rounds: null,
      mayRun: () => {
        looks += 1;
        return false;
      },
      attemptChanged: () => {},
      idle: () => {},
      failed: () => {},
      wentOn: () => {},
      nowMs: () => 0,
      monotonicMs: () => 0,
      random: () => 0,
      sleep: async () => {
        if (looks === 3) loop.stop();
      },
    });
    void loop.ended.then(resolve);
  });
  await stop;
  expect(looks).toBe(3);
});

test("an attempt that ends without an error ends the run", async () => {
  const { attempts, failures, loop } = await play([{ code: null, lastsMs: 5 }]);
  expect([attempts, failures.length, loop.isOver]).toEqual([1, 0, true]);
});

test("an attempt that cannot start is retried like a failed one", async () => {
  const { attempts, failures, loop } = await play([
    { code: "no thread", lastsMs: 0 },
    { code: null, lastsMs: 5 },
  ]);
  expect([attempts, loop.isOver]).toEqual([2, true]);
  expect(failures).toEqual([{ retry: { attempt: 1, reason: "There is no thread left." } }]);
});

test.each(["source_unreachable", "kafka_fenced"] as const)(
  "after a sink that was away for longer than the window, %s is tried again like a first failure",
  async (code) => {
    const away = Array.from({ length: 400 }, () => ({ code: "sink_unreachable", lastsMs: 1_000 }) as const);
    const { failures, attempts } = await play([
      ...away,
      { code, lastsMs: 1_000 },
      { code: null, lastsMs: 5 },
    ]);
    expect(failures.every((health) => "retry" in health)).toBe(true);
    expect(attempts).toBe(402);
  },
);

test("an unreachable source is retried until the window ends, and then the run fails", async () => {
  const { failures, nowMs, attempts } = await play([{ code: "source_unreachable", lastsMs: 1_000 }]);
  expect(failures.at(-1)).toHaveProperty("failed");
  expect(failures.slice(0, -1).every((health) => "retry" in health)).toBe(true);
  expect(nowMs).toBeGreaterThan(300_000);
  expect(nowMs).toBeLessThan(310_000);
  expect(attempts).toBeGreaterThan(50);
});

test.each([3_600_000, -3_600_000])(
  "the window stays as long when the wall clock is set by %i ms",
  async (clockStepMs) => {
    const steps = [
      { code: "source_unreachable", lastsMs: 1_000 },
      { code: "source_unreachable", lastsMs: 1_000, clockStepMs },
      { code: "source_unreachable", lastsMs: 1_000 },
    ] as const;
    const { nowMs, failures } = await play(steps, 1_000);
    expect(failures.at(-1)).toHaveProperty("failed");
    expect(nowMs).toBeWithin(300_000, 310_000);
  },
);

test("reconnecting shows the failure until the attempt gets further", async () => {
  const failing = { code: "source_unreachable", lastsMs: 100, reports: [initialize] } as const;
  const recovering = { code: null, lastsMs: 100, reports: [initialize, realtime] };
  const { seen } = await play([failing, failing, recovering]);
  const health = seen.map(({ status }) => status.retry?.attempt ?? Object.keys(status)[0]);
  expect(health).toEqual(["start", 1, 2, "start"]);
});

test("a failure stays visible until an attempt reaches a step that the failed one did not reach", async () => {
  const step = (sub_state: string, health: Status["status"] = { start: {} }): Status => ({
    state: { initialize: { sub_state, commands: [] } },
    status: health,
  });
  const warning = { warning: { reason: "It waits." } };
  const connecting = [step("connect"), step("connect", { heartbeat: {} }), step("connect", warning)];
  const away = { code: "sink_unreachable", lastsMs: 100, reports: connecting } as const;
  const further = [...connecting, step("make the slot"), step("make the slot", warning)];
  const slow = { code: "source_timeout", lastsMs: 100, reports: further } as const;
  const { seen } = await play([away, away, slow, slow], 4);
  const health = seen.map(({ status }) => status.retry?.attempt ?? Object.keys(status)[0]);
  expect(health).toEqual([
    ...["start", "heartbeat", "warning"],
    ...[1, 1, 1],
    ...[2, 2, 2, "start", "warning"],
    ...[3, 3, 3, 3, 3],
  ]);
});

test("a refusal of the sink stays visible until the sink has accepted something", async () => {
  const refused = { code: "sink_rejected_rows", lastsMs: 100, reports: [initialize, realtime] } as const;
  const recovered = { code: null, lastsMs: 100, reports: [initialize, realtime], moves: true };
  const { seen } = await play([refused, refused, recovered]);
  const health = seen.map(({ status }) => status.retry?.attempt ?? Object.keys(status)[0]);
  expect(health).toEqual(["start", "start", 1, 1, 2, 2, "start"]);
});

test("a streak restarts after progress, and not after an attempt that only started", async () => {
  const lost = { code: "source_connection_lost", lastsMs: 20_000, reports: [realtime] } as const;
  const attempts = (health: FailureHealth) => ("retry" in health ? health.retry.attempt : null);
  expect((await play([lost], 4)).failures.map(attempts)).toEqual([1, 1, 1, 1]);
  const flapping = { ...lost, lastsMs: 10 };
  expect((await play([flapping], 4)).failures.map(attempts)).toEqual([1, 2, 3, 4]);
});

test("once initialized, every later attempt is", async () => {
  const { initialized } = await play([{ code: "source_connection_lost", lastsMs: 1 }], 3);
  expect(initialized).toEqual([false, true, true]);
});
