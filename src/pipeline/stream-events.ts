// What a streaming run waits for, one thing at a time: a batch, a task, a turn of somebody who works beside the stream, other tables, or
// the word to stop. Waits on one promise of its own, since racing promises that live long would leave something on them for each batch.

import type { ChangeBatch } from "../change/change-batch.ts";
import type { ChangeStream, Source } from "../source/source.ts";
import type { OfferedTask, TaskInbox } from "./run-reporter.ts";

export type StreamEvent =
  | { readonly type: "batch"; readonly batch: ChangeBatch }
  | { readonly type: "task"; readonly task: OfferedTask }
  /** Never rejects: what comes of it is told to who asked for the turn. */
  | { readonly type: "turn"; readonly run: () => Promise<void> }
  | { readonly type: "tables" }
  | { readonly type: "stop" };

export class StreamEvents implements Disposable {
  #batch: "not asked" | "asked" | ChangeBatch = "not asked";
  #tables: "not watched" | "watched" | "changed" = "not watched";
  #isLookDue = false;
  /** Tasks and new tables wait until what the stream brings is no repetition: a webhook sink must cut that as before. */
  #isCaughtUp = false;
  readonly #turns: (() => Promise<void>)[] = [];
  /** A batch that is there comes before the next turn. */
  #wasTurn = false;
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

  /** Ends the waiting, now or the next, with this error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.wake();
  }

  /** The tables are to be taken in once more, though the source has told of no change. */
  lookAgain(): void {
    this.#isLookDue = true;
    this.wake();
  }

  /** Runs `action` between two batches, when its turn has come. Rejects with the reason of `signal` when that fires before. */
  async turn<T>(action: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const result = Promise.withResolvers<T>();
    const run = () => action().then(result.resolve, result.reject);
    const leave = () => {
      const at = this.#turns.indexOf(run);
      if (at < 0) return;
      this.#turns.splice(at, 1);
      result.reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#turns.push(run);
    this.wake();
    try {
      return await result.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * `isWhole`: the sink stands between two transactions, so that something else may come between the batches. `mayRun`: which tasks
   * may be carried out now; `wake` is to be called when that changes.
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
    const mayInterrupt = isWhole && this.#isCaughtUp;
    const task = mayInterrupt ? this.tasks.take(mayRun) : null;
    if (task) return { type: "task", task };
    const isTurn = mayInterrupt && (typeof this.#batch === "string" || !this.#wasTurn);
    const run = isTurn ? this.#turns.shift() : undefined;
    this.#wasTurn = run !== undefined;
    if (run) return { type: "turn", run };
    if (mayInterrupt && (this.#tables === "changed" || this.#isLookDue)) {
      if (this.#tables === "changed") this.#tables = "not watched";
      this.#isLookDue = false;
      return { type: "tables" };
    }
    if (typeof this.#batch === "string") return null;
    const batch = this.#batch;
    this.#batch = "not asked";
    return { type: "batch", batch };
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

  /** What is waited for may be there. */
  readonly wake = () => {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  };
}
