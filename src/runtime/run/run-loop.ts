// One run of a connector from start to end: attempt after attempt, until it is complete, stopped, or failed
// permanently.

import type { Position } from "../../change/checkpoint.ts";
import type { OpenRequest, RowQuestion } from "../../connector/receipts.ts";
import { unsupportedResume } from "../../connector/request/resume-refusal.ts";
import type { HistoryComponent, Status } from "../../connector/status.ts";
import { withCommands } from "../../connector/status-commands.ts";
import type { Term } from "../../connector/term.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { RunWork } from "../../pipeline/run-work.ts";
import type { StoredConnector } from "../../state/stores/connector-store.ts";
import type { RunMetrics, RunRequest } from "../threads/messages.ts";
import type { RunAttempt, RunEvents } from "./connector-run.ts";
import { locateFailure } from "./located-failure.ts";
import {
  addFailure,
  decideRestart,
  defaultRetryWindowMs,
  type FailureStreak,
  mayFenceBack,
} from "./restart-policy.ts";
import { RoundLoop } from "./round-loop.ts";
import type { SnapshotRounds } from "./snapshot-rounds.ts";
import { tellOfWaitingTables } from "./waiting-tables.ts";

export interface RunLoopContext {
  startRun(request: RunRequest, events: RunEvents): RunAttempt;
  /** Events of the attempts. The loop passes them on, and only watches what it needs itself. */
  readonly events: RunEvents;
  /** An attempt has started, or (null) ended, with its error. */
  attemptChanged(run: RunAttempt | null, error: MillraceError | null): void;
  /** An attempt failed: it is retried (`retry`), after `inMs` where that is known, or the run is over (`failed`). */
  failed(error: MillraceError, health: FailureHealth, inMs?: number): void;
  /** What the last failure was about is over: an attempt has got further. */
  wentOn(): void;
  /** Set for a connector that copies everything, once or on a schedule; null: it carries changes. */
  readonly rounds: SnapshotRounds | null;
  /** A connector that copies in rounds waits for its next round; null: no round is scheduled. */
  idle(nextAt: Date | null, failed: { readonly reason: string } | null): void;
  /** Of the lease under which the run is made. */
  readonly term: Term;
  /** Whether the lease still holds. No attempt begins without it. */
  mayRun(): boolean;
  /** Of the wall clock, by which rounds are scheduled. */
  readonly nowMs: () => number;
  /** Of a clock that nobody sets. Failures are counted by it. */
  readonly monotonicMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

export type FailureHealth =
  | { readonly retry: { readonly attempt: number; readonly reason: string } }
  | { readonly failed: { readonly reason: string } };

/** An attempt counts as progress once it has lasted so long after its start. */
const progressMs = 10_000;

/** How long a run without its lease waits before it looks again. */
const leaseCheckMs = 200;

/** Errors that recur until somebody has fixed the sink. */
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
  #resumes: boolean;
  #isOver = false;
  /** The last failure, shown until an attempt gets further. */
  #retry: Extract<FailureHealth, { retry: unknown }> | null = null;
  /** SQL that would help against the failure that is retried. */
  #commands: readonly string[] = [];
  /** How many steps of its beginning the last attempt reached; Infinity: all of them. An attempt that reaches more has got further. */
  #stepsBeforeFailure = 0;
  /** Rows were refused. The next attempt begins with them: it has got further only once something is durable. */
  #isRefused = false;
  /** The last change of the stream that the attempts have counted. */
  #counted: Position | null = null;
  /** When another producer fenced this run's. */
  readonly #fencedAt: number[] = [];
  readonly #rounds: RoundLoop | null;
  /** Everything is copied, and no further round is scheduled. */
  #isComplete = false;
  #failed: { readonly reason: string } | null = null;

  constructor(
    private readonly connector: StoredConnector,
    private readonly context: RunLoopContext,
  ) {
    this.runId = connector.runId;
    this.#initialized = connector.initialized;
    this.#resumes = connector.resumes;
    const { rounds } = context;
    this.#rounds = rounds && this.#roundLoop(rounds);
    const work = this.#rounds ? this.#rounds.run() : this.#attempts("changes");
    this.ended = work
      .then(() => {})
      .finally(() => {
        this.#isOver = true;
      });
  }

  /** The work is done, or has failed permanently: Start begins another run. */
  get isOver(): boolean {
    return this.#isOver || this.#isComplete;
  }

  get isStopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Asks the current attempt to finish what is in flight, and makes no other. */
  stop(): void {
    this.#stop.abort();
    this.#current?.stop();
  }

  /** Ends the current attempt at once, and makes no other. */
  cut(): void {
    this.#stop.abort();
    this.#current?.cut();
  }

  /** See `RunAttempt`. */
  async findRow(question: RowQuestion): Promise<readonly OpenRequest[] | null> {
    return (await this.#current?.findRow?.(question)) ?? null;
  }

  /** A task is due, and maybe no attempt is running that could execute it. */
  taskDue(): void {
    this.#rounds?.taskDue();
  }

  #roundLoop(rounds: SnapshotRounds): RoundLoop {
    const { nowMs, sleep, idle } = this.context;
    return new RoundLoop({
      rounds,
      nowMs,
      sleep,
      stop: this.#stop.signal,
      attempts: (work) => {
        this.#isComplete = false;
        return this.#attempts(work);
      },
      begun: () => {
        this.#initialized = false;
      },
      idle: (nextAt, isFailed) => {
        this.#isComplete = nextAt === null;
        idle(nextAt, isFailed ? this.#failed : null);
      },
      failed: (error) => {
        const fault = toMillraceError(error);
        this.context.failed(fault, { retry: { attempt: 1, reason: fault.message } });
      },
    });
  }

  /** Whether the work was done; false: the run was stopped, or failed permanently. */
  async #attempts(work: RunWork): Promise<boolean> {
    let streak: FailureStreak | null = null;
    while (await this.#untilItMayRun()) {
      // An attempt that cannot even start, for lack of a thread or of memory, counts as failed.
      const outcome = await this.#attempt(work).catch((fault: unknown) => ({
        error: toMillraceError(fault),
        progressed: false,
        hasBegun: false,
      }));
      const { error: ended, progressed, hasBegun } = outcome;
      if (this.isStopping) return false;
      if (ended === null) return true;
      // It may have met what another replica has done, which is no failure to tell of.
      if (!this.context.mayRun()) continue;
      const error = tellOfWaitingTables(locateFailure(ended, this.connector.config));
      const nowMs = this.context.monotonicMs();
      streak = addFailure(progressed ? null : streak, error, nowMs);
      const retryWindowMs = this.#retryWindowMs();
      const fencesBack = this.#fencesBack(error, nowMs);
      const random = this.context.random();
      const decision = decideRestart(error, streak, { nowMs, retryWindowMs, random, fencesBack });
      if (decision.action === "fail") {
        this.#failed = { reason: decision.reason };
        this.context.failed(error, { failed: this.#failed });
        return false;
      }
      // A single change of the stream's form is no failure.
      if (error.code === "stream_form_changed" && streak.count === 1) continue;
      this.#commands = error.commands;
      this.#retry = { retry: { attempt: decision.attempt, reason: error.message } };
      this.#isRefused = hasBegun && refusals.has(error.code);
      this.context.failed(error, this.#retry, decision.delayMs);
      await this.context.sleep(decision.delayMs, this.#stop.signal);
    }
    return false;
  }

  #fencesBack({ code }: MillraceError, nowMs: number): boolean {
    if (code !== "kafka_fenced") return false;
    const isPossible = mayFenceBack(this.#fencedAt, nowMs);
    this.#fencedAt.push(nowMs);
    return isPossible;
  }

  /** Waits for the lease. Returns whether another attempt may begin; false: the run was stopped. */
  async #untilItMayRun(): Promise<boolean> {
    const { mayRun, sleep } = this.context;
    while (!this.isStopping && !mayRun()) await sleep(leaseCheckMs, this.#stop.signal);
    return !this.isStopping;
  }

  async #attempt(
    work: RunWork,
  ): Promise<{ error: MillraceError | null; progressed: boolean; hasBegun: boolean }> {
    let firstProgressMs: number | null = null;
    let moved = false;
    let last: { readonly component: HistoryComponent; readonly status: Status } | null = null;
    const steps = new Set<string>();
    const recordProgress = () => {
      firstProgressMs ??= this.context.monotonicMs();
    };
    const lastedMs = () => (firstProgressMs === null ? 0 : this.context.monotonicMs() - firstProgressMs);
    const { events } = this.context;
    // A PATCH may have come since the command. Without copies, tables that are void would stay as they are.
    const unsupported = this.#resumes ? unsupportedResume(this.connector.config) : null;
    if (unsupported !== null) throw unsupported;
    const run = this.context.startRun(
      {
        connector: this.connector.config,
        work,
        runId: this.runId,
        owner: ownerOf(this.connector),
        term: this.context.term,
        initialized: this.#initialized,
        resumes: this.#resumes,
        isAfterRefusal: this.#isRefused,
        counted: this.#counted,
      },
      {
        ...events,
        initialized: async () => {
          await events.initialized();
          this.#initialized = true;
          this.#resumes = false;
        },
        status: (component, status, retryInMs) => {
          last = { component, status };
          if (status.state.snapshot || status.state.realtime) {
            if (!this.#isRefused) this.#wentOn();
            recordProgress();
          } else if (status.state.initialize) {
            steps.add(status.state.initialize.sub_state);
            if (!this.#isRefused && steps.size > this.#stepsBeforeFailure) this.#wentOn();
          }
          events.status(component, this.#underRetry(status), retryInMs);
        },
        metrics: (metrics: RunMetrics) => {
          moved ||= metrics.rowsDurable > 0 || metrics.snapshot.tablesDone > 0;
          this.#counted = metrics.counted ?? this.#counted;
          events.metrics(metrics);
          if (this.#retry === null || !(moved || lastedMs() >= progressMs)) return;
          this.#wentOn();
          if (last) events.status(last.component, last.status);
        },
      },
    );
    this.#current = run;
    this.context.attemptChanged(run, null);
    if (this.isStopping) run.stop();
    const error = await run.ended;
    this.#stepsBeforeFailure = firstProgressMs === null ? steps.size : Number.POSITIVE_INFINITY;
    this.#current = null;
    this.context.attemptChanged(null, error);
    return { error, progressed: moved || lastedMs() >= progressMs, hasBegun: firstProgressMs !== null };
  }

  /** While a retry has not got further than the failure, the status keeps showing the failure. */
  #underRetry(status: Status): Status {
    const { start, heartbeat, warning } = status.status;
    const isNoNews = start || heartbeat || warning;
    if (!this.#retry || !isNoNews) return status;
    return { state: withCommands(status.state, this.#commands), status: this.#retry };
  }

  #wentOn(): void {
    if (this.#retry === null) return;
    this.#retry = null;
    this.context.wentOn();
  }

  #retryWindowMs(): number {
    const replication = this.connector.config.source.postgres?.replication_type.logical_replication;
    const seconds = replication?.retry_window_seconds ?? 0;
    return seconds === 0 ? defaultRetryWindowMs : seconds * 1000;
  }
}

/** Unique: no other installation has created a connector in the same millisecond. Its replicas are told apart by terms. */
export function ownerOf({ createdAt }: Pick<StoredConnector, "createdAt">): string {
  return createdAt.getTime().toString(36);
}
