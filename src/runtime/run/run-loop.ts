// One run of a connector from its start to its end: attempt after attempt, until it is complete, stopped, or failed
// for good.

import type { HistoryComponent, Status } from "../../connector/status.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { RunWork } from "../../pipeline/run-work.ts";
import type { StoredConnector } from "../../state/stores/connector-store.ts";
import type { RunMetrics, RunRequest } from "../threads/messages.ts";
import type { RunAttempt, RunEvents } from "./connector-run.ts";
import { locateFailure } from "./located-failure.ts";
import { addFailure, decideRestart, defaultRetryWindowMs, type FailureStreak } from "./restart-policy.ts";
import { RoundLoop } from "./round-loop.ts";
import type { SnapshotRounds } from "./snapshot-rounds.ts";

export interface RunLoopContext {
  startRun(request: RunRequest, events: RunEvents): RunAttempt;
  /** What the attempts tell and ask; the loop adds nothing to it but what it needs to know itself. */
  readonly events: RunEvents;
  /** An attempt is up, or (null) gone, with what ended it. */
  attached(run: RunAttempt | null, error: MillraceError | null): void;
  /** The run failed: it is tried again (`retry`), or it is over (`failed`). */
  failing(error: MillraceError, health: FailureHealth): void;
  /** Of a connector that copies everything, once or on a schedule; null: it carries changes. */
  readonly rounds: SnapshotRounds | null;
  /** A connector that copies in rounds waits for the next; null: none comes by itself. */
  resting(nextAt: Date | null, failed: { readonly reason: string } | null): void;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

export type FailureHealth =
  | { readonly retry: { readonly attempt: number; readonly reason: string } }
  | { readonly failed: { readonly reason: string } };

/** What an attempt has done counts as progress once it has gone on for this long behind its start. */
const progressMs = 10_000;

/** What comes again until somebody has mended the sink. */
const refusals: ReadonlySet<ErrorCode> = new Set([
  "sink_rejected_rows",
  "sink_schema_mismatch",
  "sink_permission_denied",
]);

export class RunLoop {
  readonly runId: string;
  /** Resolves when the run is over and its threads are gone. Never rejects. */
  readonly ended: Promise<void>;
  readonly #stop = new AbortController();
  #current: RunAttempt | null = null;
  #initialized: boolean;
  #isOver = false;
  /** What the last attempt failed with, until one gets further. */
  #retry: Extract<FailureHealth, { retry: unknown }> | null = null;
  /** How many steps of the beginning the last attempt came to; Infinity: it was past all of them. */
  #stepsBeforeFailure = 0;
  /** What was refused comes first in the next attempt, which is no further before something is durable. */
  #isRefused = false;
  readonly #rounds: RoundLoop | null;
  /** Everything was copied, and no other round comes by itself. */
  #isComplete = false;
  #failed: { readonly reason: string } | null = null;

  constructor(
    private readonly connector: StoredConnector,
    private readonly context: RunLoopContext,
  ) {
    this.runId = connector.runId;
    this.#initialized = connector.initialized;
    const { rounds } = context;
    this.#rounds = rounds && this.#roundLoop(rounds);
    const work = this.#rounds ? this.#rounds.toTheEnd() : this.#attempts("changes");
    this.ended = work
      .then(() => {})
      .finally(() => {
        this.#isOver = true;
      });
  }

  /** What was asked for is done, or has failed for good: Start begins another run. */
  get isOver(): boolean {
    return this.#isOver || this.#isComplete;
  }

  get isStopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Asks the attempt under way to finish what is in flight, and makes no other. */
  stop(): void {
    this.#stop.abort();
    this.#current?.stop();
  }

  /** A task is due, and nothing may be under way that could take it up. */
  taskWaits(): void {
    this.#rounds?.taskWaits();
  }

  #roundLoop(rounds: SnapshotRounds): RoundLoop {
    const { nowMs, sleep, resting } = this.context;
    return new RoundLoop({
      ...{ rounds, nowMs, sleep, stop: this.#stop.signal },
      attempts: (work) => {
        this.#isComplete = false;
        return this.#attempts(work);
      },
      begun: () => {
        this.#initialized = false;
      },
      resting: (nextAt, isFailed) => {
        this.#isComplete = nextAt === null;
        resting(nextAt, isFailed ? this.#failed : null);
      },
      failing: (error) => {
        const fault = toMillraceError(error);
        this.context.failing(fault, { retry: { attempt: 1, reason: fault.message } });
      },
    });
  }

  /** Whether the work was done: not when it was stopped, or has failed for good. */
  async #attempts(work: RunWork): Promise<boolean> {
    let streak: FailureStreak | null = null;
    while (!this.isStopping) {
      // One that cannot even begin, for want of a thread or of memory, is an attempt that failed.
      const outcome = await this.#attempt(work).catch((fault: unknown) => ({
        ...{ error: toMillraceError(fault), progressed: false, hasBegun: false },
      }));
      const { error: ended, progressed, hasBegun } = outcome;
      if (this.isStopping) return false;
      if (ended === null) return true;
      const error = locateFailure(ended, this.connector.config);
      const nowMs = this.context.nowMs();
      streak = addFailure(progressed ? null : streak, nowMs);
      const retryWindowMs = this.#retryWindowMs();
      const decision = decideRestart(error, streak, { nowMs, retryWindowMs, random: this.context.random() });
      if (decision.action === "fail") {
        this.#failed = { reason: decision.reason };
        this.context.failing(error, { failed: this.#failed });
        return false;
      }
      // A change of form is no fault, unless it comes again and again.
      if (error.code === "stream_form_changed" && streak.count === 1) continue;
      this.#retry = { retry: { attempt: decision.attempt, reason: error.message } };
      this.#isRefused = hasBegun && refusals.has(error.code);
      this.context.failing(error, this.#retry);
      await this.context.sleep(decision.delayMs, this.#stop.signal);
    }
    return false;
  }

  async #attempt(
    work: RunWork,
  ): Promise<{ error: MillraceError | null; progressed: boolean; hasBegun: boolean }> {
    let firstProgressMs: number | null = null;
    let moved = false;
    let last: { readonly component: HistoryComponent; readonly status: Status } | null = null;
    const steps = new Set<string>();
    const noteProgress = () => {
      firstProgressMs ??= this.context.nowMs();
    };
    const lastedMs = () => (firstProgressMs === null ? 0 : this.context.nowMs() - firstProgressMs);
    const { events } = this.context;
    const run = this.context.startRun(
      {
        connector: this.connector.config,
        work,
        runId: this.runId,
        owner: ownerOf(this.connector),
        initialized: this.#initialized,
        isAfterRefusal: this.#isRefused,
      },
      {
        ...events,
        initialized: async () => {
          await events.initialized();
          this.#initialized = true;
        },
        status: (component, status) => {
          last = { component, status };
          if (status.state.snapshot || status.state.realtime) {
            if (!this.#isRefused) this.#retry = null;
            noteProgress();
          } else if (status.state.initialize) {
            steps.add(status.state.initialize.sub_state);
            if (!this.#isRefused && steps.size > this.#stepsBeforeFailure) this.#retry = null;
          }
          events.status(component, this.#underRetry(status));
        },
        metrics: (metrics: RunMetrics) => {
          moved ||= metrics.rowsDurable > 0 || metrics.snapshot.tablesDone > 0;
          events.metrics(metrics);
          if (this.#retry === null || !(moved || lastedMs() >= progressMs)) return;
          this.#retry = null;
          if (last) events.status(last.component, last.status);
        },
      },
    );
    this.#current = run;
    this.context.attached(run, null);
    if (this.isStopping) run.stop();
    const error = await run.ended;
    this.#stepsBeforeFailure = firstProgressMs === null ? steps.size : Number.POSITIVE_INFINITY;
    this.#current = null;
    this.context.attached(null, error);
    return { error, progressed: moved || lastedMs() >= progressMs, hasBegun: firstProgressMs !== null };
  }

  /** Beginning again is no news while it is not known to help: the failure stays in sight. */
  #underRetry(status: Status): Status {
    const { start, heartbeat, warning } = status.status;
    const isNoNews = start || heartbeat || warning;
    return this.#retry && isNoNews ? { state: status.state, status: this.#retry } : status;
  }

  #retryWindowMs(): number {
    const replication = this.connector.config.source.postgres?.replication_type.logical_replication;
    const seconds = replication?.retry_window_seconds ?? 0;
    return seconds === 0 ? defaultRetryWindowMs : seconds * 1000;
  }
}

/** No other service has made a connector in the same millisecond, and one state has one service at a time. */
function ownerOf({ createdAt }: StoredConnector): string {
  return createdAt.getTime().toString(36);
}
