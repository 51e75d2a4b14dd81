// The events that a streaming run waits for, one at a time: a batch, a task, an action between two batches, changed tables, or the stop. `next`
// waits on one promise of its own: racing long-lived promises would leave a handler on them for each batch.

import { emptyBatch } from "../change/batch-builder.ts";
import { cutBatch } from "../change/batch-cut.ts";
import type { ChangeBatch } from "../change/change-batch.ts";
import type { Lsn } from "../change/lsn.ts";
import type { ChangeStream } from "../source/change-stream.ts";
import type { Source } from "../source/source.ts";
import type { OfferedTask, TaskInbox } from "./run-reporter.ts";

export type StreamEvent =
  | { readonly type: "batch"; readonly batch: ChangeBatch }
  | { readonly type: "task"; readonly task: OfferedTask }
  /** Something to run between two batches. `run` never rejects: the caller of `betweenBatches` gets the outcome. */
  | { readonly type: "action"; readonly run: () => Promise<void> }
  | { readonly type: "tables" }
  | { readonly type: "stop" };

/** Something to run when exactly what was committed before an LSN is written. */
interface Cut {
  readonly at: Lsn;
  readonly run: () => Promise<void>;
  isReached: boolean;
}

export class StreamEvents implements Disposable {
  #batch: "not asked" | "asked" | ChangeBatch = "not asked";
  #tables: "not watched" | "watched" | "changed" = "not watched";
  #isRefreshDue = false;
  /** Tasks and new tables wait until the stream repeats nothing: a webhook sink must cut repeated batches as before. */
  #isCaughtUp = false;
  readonly #actions: (() => Promise<void>)[] = [];
  /** The last event was an action: a batch that is there comes next. */
  #wasAction = false;
  /** As `wasAction`, of tables: the stream goes on, however often they are to be read. */
  #wasTables = false;
  /** Only batches are handed out before it is reached. */
  #cut: Cut | null = null;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void) | null = null;

  constructor(
    private readonly stream: ChangeStream,
    private readonly source: Source,
    private readonly tasks: TaskInbox,
    private readonly stop: AbortSignal,
  ) {
    stop.addEventListener("abort", this.wake);
    tasks.onArrival(this.wake);
    this.#when(stream.caughtUp, () => {
      this.#isCaughtUp = true;
    });
  }

  /** The current or next call of `next` throws this error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.wake();
  }

  /** Asks for a `tables` event, though the source has reported no change. */
  refreshTables(): void {
    this.#isRefreshDue = true;
    this.wake();
  }

  /** A `tables` event is to come. */
  get areTablesDue(): boolean {
    return this.#tables === "changed" || this.#isRefreshDue;
  }

  /** Runs `action` between two batches. Rejects with the reason of `signal` if that fires before. */
  async betweenBatches<T>(action: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const result = Promise.withResolvers<T>();
    const run = () => action().then(result.resolve, result.reject);
    const leave = () => {
      const at = this.#actions.indexOf(run);
      if (at < 0) return;
      this.#actions.splice(at, 1);
      result.reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#actions.push(run);
    this.wake();
    try {
      return await result.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * Runs `action` when exactly what was committed before the LSN is written that `place` returns. `place` runs between two batches, so that the
   * stream has not passed the LSN, and the stream waits for it. Null: it is given up, and so is `action`. Rejects with the reason of `signal` if
   * that fires before.
   */
  async exactlyAt<T>(
    place: () => Promise<Lsn | null>,
    action: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | null> {
    const result = Promise.withResolvers<T | null>();
    const run = () => action().then(result.resolve, result.reject);
    let cut: Cut | null = null;
    await this.betweenBatches(async () => {
      const at = await place();
      if (at === null) return result.resolve(null);
      this.#cut = cut = { at, run, isReached: false };
      this.stream.reach(at);
    }, signal);
    const leave = () => {
      if (cut === null || this.#cut !== cut) return;
      this.#cut = null;
      result.reject(signal.reason);
      this.wake();
    };
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    try {
      return await result.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * Waits for the next event. `isWhole`: the sink is between two transactions, so that events other than batches may come. `mayRun`: which tasks
   * may run now; call `wake` when that changes.
   */
  async next(isWhole: boolean, mayRun: (task: OfferedTask) => boolean = () => true): Promise<StreamEvent> {
    while (true) {
      this.#ask();
      if (this.#failure) throw this.#failure.error;
      const event = this.#take(isWhole, mayRun);
      if (event) return event;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  [Symbol.dispose](): void {
    this.stop.removeEventListener("abort", this.wake);
    this.tasks.onArrival(null);
  }

  #take(isWhole: boolean, mayRun: (task: OfferedTask) => boolean): StreamEvent | null {
    if (this.stop.aborted) return { type: "stop" };
    if (this.#cut) return this.#takeBefore(this.#cut, isWhole);
    const mayInterrupt = isWhole && this.#isCaughtUp;
    const task = mayInterrupt ? this.tasks.take(mayRun) : null;
    if (task) return { type: "task", task };
    const isActionNext = mayInterrupt && (typeof this.#batch === "string" || !this.#wasAction);
    const run = isActionNext ? this.#actions.shift() : undefined;
    this.#wasAction = run !== undefined;
    if (run) return { type: "action", run };
    const areTablesNext = mayInterrupt && (typeof this.#batch === "string" || !this.#wasTables);
    this.#wasTables = areTablesNext && this.areTablesDue;
    if (this.#wasTables) {
      if (this.#tables === "changed") this.#tables = "not watched";
      this.#isRefreshDue = false;
      return { type: "tables" };
    }
    if (typeof this.#batch === "string") return null;
    const batch = this.#batch;
    this.#batch = "not asked";
    return { type: "batch", batch };
  }

  /** No other action may run before the cut: it could write rows of a later point. */
  #takeBefore(cut: Cut, isWhole: boolean): StreamEvent | null {
    if (!cut.isReached && typeof this.#batch !== "string") {
      const { before, after, isReached } = cutBatch(this.#batch, cut.at);
      this.#batch = after ?? "not asked";
      cut.isReached = isReached;
      if (before) return { type: "batch", batch: before };
    }
    if (!cut.isReached) return null;
    if (!isWhole) {
      // The sink has all of the last transaction before the cut, but does not know that it has ended: the next batch would tell it.
      return typeof this.#batch === "string"
        ? null
        : { type: "batch", batch: emptyBatch(this.#batch.form, cut.at) };
    }
    this.#cut = null;
    this.#wasAction = true;
    return { type: "action", run: cut.run };
  }

  #ask(): void {
    if (this.#batch === "not asked") {
      this.#batch = "asked";
      this.#when(this.stream.next(), (batch) => {
        this.#batch = batch;
      });
    }
    if (this.#tables === "not watched") {
      this.#tables = "watched";
      this.#when(this.source.tablesChanged(), () => {
        this.#tables = "changed";
      });
    }
  }

  #when<T>(promise: Promise<T>, settle: (value: T) => void): void {
    promise
      .then(settle, (error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(this.wake);
  }

  /** Makes `next` check again. */
  readonly wake = () => {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  };
}
