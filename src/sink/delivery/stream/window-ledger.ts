// The windows that the stream is cut into, oldest first, and how far the checkpoint may move: past each window whose requests are
// delivered, with those of all windows before it. Pure.

import type { StreamPoint } from "../record/sink-record.ts";

/** A part of the stream. Requests are cut from its start, and the checkpoint passes it as a whole. */
class Window {
  /** Requests that are not delivered. */
  pending = 0;
  changes = 0;
  /** Bytes of the changes as the source sent them. What is sent of them decides nothing. */
  bytes = 0;
  rows = 0;
  /** Where the stream stands after it; null while it is open. */
  end: StreamPoint | null = null;
}

export interface LedgerProgress {
  readonly checkpoint: StreamPoint;
  readonly rows: number;
  readonly bytes: number;
}

export class WindowLedger {
  readonly #closed: Window[] = [];
  #open = new Window();

  get open(): Window {
    return this.#open;
  }

  /** Nothing is in flight, and nothing waits to be cut. */
  get isIdle(): boolean {
    return this.#closed.length === 0 && this.#open.changes === 0 && this.#open.pending === 0;
  }

  /** Ends the open window at `end` and opens the next. */
  close(end: StreamPoint): void {
    this.#open.end = end;
    this.#closed.push(this.#open);
    this.#open = new Window();
  }

  /** Takes out the windows that are delivered, up to the first that is not; null when there is none. */
  advance(): LedgerProgress | null {
    let rows = 0;
    let bytes = 0;
    let checkpoint: StreamPoint | null = null;
    for (;;) {
      const first = this.#closed[0];
      if (!first || first.pending > 0 || first.end === null) break;
      this.#closed.shift();
      rows += first.rows;
      bytes += first.bytes;
      checkpoint = first.end;
    }
    return checkpoint && { checkpoint, rows, bytes };
  }
}
