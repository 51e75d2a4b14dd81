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

/** So many windows, and those that are delivered are made one with their neighbours. */
const leastFolded = 64;

export class WindowLedger {
  #closed: Window[] = [];
  #foldedFrom = leastFolded;
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
    if (this.#closed.length >= this.#foldedFrom) this.#fold();
  }

  /** What one request holds back for hours is as many windows as have requests on their way, and as many more between these. */
  get size(): number {
    return this.#closed.length;
  }

  #fold(): void {
    const folded: Window[] = [];
    for (const window of this.#closed) {
      const last = folded.at(-1);
      if (last?.pending === 0 && window.pending === 0) {
        last.rows += window.rows;
        last.bytes += window.bytes;
        last.end = window.end;
      } else folded.push(window);
    }
    this.#closed = folded;
    this.#foldedFrom = Math.max(leastFolded, folded.length * 2);
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
