// A run that copies everything in rounds: waits until one is due, makes it, and rests until the next. Tasks that come while it
// rests are carried out without a round.

import type { RunWork } from "../../pipeline/run-work.ts";
import type { SnapshotRounds } from "./snapshot-rounds.ts";

export interface RoundLoopContext {
  readonly rounds: SnapshotRounds;
  /** Attempt after attempt. Whether the work was done: not when the run was stopped, or has failed for good. */
  attempts(work: RunWork): Promise<boolean>;
  /** A round begins anew. */
  begun(): void;
  /** Nothing is to be done before this time; null: not by itself. `isFailed`: the last round could not be made. */
  resting(dueAt: Date | null, isFailed: boolean): void;
  /** What the state store refuses to record for now. */
  failing(error: unknown): void;
  readonly nowMs: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly stop: AbortSignal;
}

/** A longer timer would run over, and the clock may be set meanwhile. */
const longestSleepMs = 3_600_000;
const storeAgainMs = 1_000;

export class RoundLoop {
  #wake: AbortController | null = null;
  #isTaskWaiting = false;

  constructor(private readonly context: RoundLoopContext) {}

  /** A task is due. Returns at once. */
  taskWaits(): void {
    this.#isTaskWaiting = true;
    this.#wake?.abort();
  }

  /** Returns when the run was stopped, or has failed for good. */
  async toTheEnd(): Promise<void> {
    const { rounds, stop } = this.context;
    const failed = { round: false, tasks: false };
    while (!stop.aborted) {
      const work = await this.#untilDue(failed);
      if (work === null) return;
      const isDone = work === "copies" ? await this.#makeRound() : await this.#attempts(work);
      if (stop.aborted) return;
      if (!isDone && !rounds.isScheduled) return;
      failed.tasks = work === "tasks" && !isDone;
      if (work === "copies") failed.round = !isDone;
      if (work === "copies" && !isDone) rounds.fail();
    }
  }

  async #makeRound(): Promise<boolean> {
    const { rounds, begun } = this.context;
    if (await this.#recorded(() => rounds.begin())) begun();
    const isDone = await this.#attempts("copies");
    if (isDone) await this.#recorded(() => rounds.end());
    return isDone;
  }

  /** Each is offered all tasks that are due: what waited until here waits no longer. */
  async #attempts(work: RunWork): Promise<boolean> {
    this.#isTaskWaiting = false;
    return await this.context.attempts(work);
  }

  /**
   * Null: it was stopped meanwhile. One table may have failed the round, and another be what a task is for. What fails tasks is none of
   * theirs: those that come wait for the round.
   */
  async #untilDue(failed: { readonly round: boolean; readonly tasks: boolean }): Promise<RunWork | null> {
    const { rounds, stop, nowMs, sleep } = this.context;
    let told: number | null | undefined;
    while (!stop.aborted) {
      const dueAt = rounds.whenDue();
      const waitMs = dueAt === null ? longestSleepMs : dueAt.getTime() - nowMs();
      if (waitMs <= 0) return "copies";
      if (this.#isTaskWaiting && !failed.tasks) return "tasks";
      const at = dueAt?.getTime() ?? null;
      if (at !== told) this.context.resting(dueAt, failed.round || failed.tasks);
      told = at;
      this.#wake = new AbortController();
      await sleep(Math.min(waitMs, longestSleepMs), AbortSignal.any([stop, this.#wake.signal]));
      this.#wake = null;
    }
    return null;
  }

  /** Until the store has it, or the run is to stop: a round that was not recorded would be made twice. */
  async #recorded<T>(action: () => Promise<T>): Promise<T | null> {
    const { stop, sleep, failing } = this.context;
    while (!stop.aborted) {
      try {
        return await action();
      } catch (error) {
        failing(error);
        await sleep(storeAgainMs, stop);
      }
    }
    return null;
  }
}
