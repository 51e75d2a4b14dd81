// Knows up to which LSN a stream has been written, for copies that wait until it has passed their points.

import type { ChangeBatch } from "../change/change-batch.ts";
import { formatLsn, type Lsn } from "../change/lsn.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Sink } from "../sink/sink.ts";
import type { ChangeStream } from "../source/change-stream.ts";

/** Waiting fails if the stream brings no batch for this long. A stream that somebody waits for brings empty ones. */
const defaultPatienceMs = 60_000;

export class StreamPosition {
  /** The stream waits for the sink, or for an action between two batches: that is no stall. */
  isPaused = false;
  /** Called whenever the stream has moved. */
  readonly #waiting = new Set<() => void>();

  constructor(
    /** All changes committed before it are written. */
    private written: Lsn,
    private readonly stream: Pick<ChangeStream, "reach">,
    private readonly patienceMs = defaultPatienceMs,
  ) {}

  get lsn(): Lsn {
    return this.written;
  }

  /** The batch is written. */
  wrote({ resumeLsn, inProgress }: ChangeBatch): void {
    // A part of a transaction in progress has the LSN where that began, and is not durable.
    const isPart = inProgress && inProgress.outcome !== "committed";
    if (!isPart && resumeLsn > this.written) this.written = resumeLsn;
    for (const check of [...this.#waiting]) check();
  }

  /** Resolves when all changes committed before `lsn` are written. Throws `source_timeout` if the stream stalls, or the reason of `signal`. */
  async passed(lsn: Lsn, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.written >= lsn) return;
    const there = Promise.withResolvers<void>();
    let timer: Timer | undefined;
    const wait = () => {
      timer = setTimeout(() => (this.isPaused ? wait() : there.reject(this.#stalled(lsn))), this.patienceMs);
    };
    const check = () => {
      clearTimeout(timer);
      if (this.written >= lsn) there.resolve();
      else wait();
    };
    const abort = () => there.reject(signal.reason);
    this.#waiting.add(check);
    signal.addEventListener("abort", abort, { once: true });
    wait();
    try {
      this.stream.reach(lsn);
      await there.promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(check);
      signal.removeEventListener("abort", abort);
    }
  }

  #stalled(lsn: Lsn): MillraceError {
    return new MillraceError(
      "source_timeout",
      `The stream of changes has not come to ${formatLsn(lsn)}, where the copy was read, and has brought nothing for ` +
        `${Math.round(this.patienceMs / 1000)} s: it is at ${formatLsn(this.written)}.`,
    );
  }
}

/** So that the next run reads nothing again that held nothing for this one. */
export async function writeEnd(
  stream: Pick<ChangeStream, "end">,
  { lsn }: StreamPosition,
  sink: Pick<Sink, "write">,
): Promise<void> {
  try {
    const last = await stream.end(lsn);
    if (last) await sink.write(last);
  } catch {
    // Nothing is lost by it: the next run begins where the sink stands.
  }
}
