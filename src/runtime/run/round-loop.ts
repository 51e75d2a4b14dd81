// A run that copies everything in rounds: waits until a round is due, makes it, and waits for the next one. Tasks that
// come in between are executed without a round.

import type { RunWork } from "../../pipeline/run-work.ts";
import type { SnapshotRounds } from "./snapshot-rounds.ts";

export interface RoundLoopContext {
  readonly rounds: SnapshotRounds;
  /** Makes attempts. Returns whether the work was done; false: the run was stopped, or failed permanently. */
  attempts(work: RunWork): Promise<boolean>;
  /** A new round begins. */
  begun(): void;
  /**
   * Nothing is to be done before this time; null: until somebody asks. `isFailed`: the last round could not be made.
   */
  idle(dueAt: Date | null, isFailed: boolean): void;
  /** The state store does not record the round for now. */
  failed(error: unknown): void;
  readonly nowMs: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly stop: AbortSignal;
}

/** A longer timer overflows, and the clock may be set meanwhile. */
const maxSleepMs = 3_600_000;
const storeRetryMs = 1_000;

export class RoundLoop {
  #wake: AbortController | null = null;
  #isTaskDue = false;

  constructor(private readonly context: RoundLoopContext) {}

  /** A task is due. Returns at once. */
  taskDue(): void {
    this.#isTaskDue = true;
    this.#wake?.abort();
  }

  /** Returns when the run was stopped, or failed permanently. */
  async run(): Promise<void> {
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

  /** An attempt is offered all tasks that are due, so none waits after this. */
  async #attempts(work: RunWork): Promise<boolean> {
    this.#isTaskDue = false;
    return await this.context.attempts(work);
  }

  /**
   * Null: the run was stopped. After tasks have failed, further ones wait for the next round. A failed round does not
   * hold up tasks: the table that failed may not be theirs.
   */
  async #untilDue(failed: { readonly round: boolean; readonly tasks: boolean }): Promise<RunWork | null> {
    const { rounds, stop, nowMs, sleep } = this.context;
    let reported: number | null | undefined;
    while (!stop.aborted) {
      const dueAt = rounds.whenDue();
      const waitMs = dueAt === null ? maxSleepMs : dueAt.getTime() - nowMs();
      if (waitMs <= 0) return "copies";
      if (this.#isTaskDue && !failed.tasks) return "tasks";
      const at = dueAt?.getTime() ?? null;
      if (at !== reported) this.context.idle(dueAt, failed.round || failed.tasks);
      reported = at;
      this.#wake = new AbortController();
      await sleep(Math.min(waitMs, maxSleepMs), AbortSignal.any([stop, this.#wake.signal]));
      this.#wake = null;
    }
    return null;
  }

  /**
   * Retries until the store has recorded it, or the run is stopped: a round that is not recorded would be made twice.
   */
  async #recorded<T>(action: () => Promise<T>): Promise<T | null> {
    const { stop, sleep, failed } = this.context;
    while (!stop.aborted) {
      try {
        return await action();
      } catch (error) {
        failed(error);
        await sleep(storeRetryMs, stop);
      }
    }
    return null;
  }
}
