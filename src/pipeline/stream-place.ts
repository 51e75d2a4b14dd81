// How far a stream has been written, for those who wait until it has come to a place.

import type { ChangeBatch } from "../change/change-batch.ts";
import { formatLsn, type Lsn } from "../change/lsn.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { ChangeStream } from "../source/source.ts";

/** A stream that brings nothing for so long, not even word of how far it is, is not waited for. */
const defaultPatienceMs = 60_000;

export class StreamPlace {
  /** The stream waits for whoever carries it: for the sink, or for what stands between two batches. */
  isHeld = false;
  /** Called whenever the stream has moved. */
  readonly #waiting = new Set<() => void>();

  constructor(
    /** All that was committed before it has been written. */
    private written: Lsn,
    private readonly stream: Pick<ChangeStream, "reach">,
    private readonly patienceMs = defaultPatienceMs,
  ) {}

  /** The sink has the batch. */
  wrote({ resumeLsn, inProgress }: ChangeBatch): void {
    // A part of a transaction in progress tells where that was begun, and is not durable.
    const isPart = inProgress && inProgress.outcome !== "committed";
    if (!isPart && resumeLsn > this.written) this.written = resumeLsn;
    for (const look of [...this.#waiting]) look();
  }

  /**
   * Resolves when all that was committed before `lsn` has been written. Throws `source_timeout` when the stream stands still before
   * that, or the reason of `signal`.
   */
  async passed(lsn: Lsn, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.written >= lsn) return;
    const there = Promise.withResolvers<void>();
    let timer: Timer | undefined;
    const wait = () => {
      timer = setTimeout(
        () => (this.isHeld ? wait() : there.reject(this.#standsStill(lsn))),
        this.patienceMs,
      );
    };
    const look = () => {
      clearTimeout(timer);
      if (this.written >= lsn) there.resolve();
      else wait();
    };
    const abort = () => there.reject(signal.reason);
    this.#waiting.add(look);
    signal.addEventListener("abort", abort, { once: true });
    wait();
    try {
      this.stream.reach(lsn);
      await there.promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
      signal.removeEventListener("abort", abort);
    }
  }

  #standsStill(lsn: Lsn): MillraceError {
    return new MillraceError(
      "source_timeout",
      `The stream of changes has not come to ${formatLsn(lsn)}, where the copy was read, and has brought nothing for ` +
        `${Math.round(this.patienceMs / 1000)} s: it is at ${formatLsn(this.written)}.`,
    );
  }
}
