// Decides when a stream without changes reports its position by an empty batch: from time to time, over log that holds
// nothing for us; when a server that is being stopped asks; and when somebody waits for an LSN. The intervals are in
// feedback.ts.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { isAdvanceDue, minAdvanceBytes, type StreamPace } from "./feedback.ts";

export class IdleAdvance implements Disposable {
  /** Position of the last batch that was handed out, and when that was. */
  #handedOut: Lsn;
  #handedOutAt = performance.now();
  #isFollowedUp = false;
  #isReplyRequested = false;
  /** The LSN that somebody waits for; null: nobody waits. */
  #awaited: Lsn | null = null;
  #timer: Timer | null = null;

  constructor(
    start: Lsn,
    private readonly pace: StreamPace,
    private readonly look: () => void,
  ) {
    this.#handedOut = start;
  }

  get handedOut(): Lsn {
    return this.#handedOut;
  }

  get sinceMs(): number {
    return performance.now() - this.#handedOutAt;
  }

  /** The server asked for our position. */
  requestReply(): void {
    this.#isReplyRequested = true;
  }

  reach(lsn: Lsn): void {
    if (lsn > this.#handedOut && (this.#awaited === null || lsn > this.#awaited)) this.#awaited = lsn;
  }

  /** Whether somebody waits for an LSN beyond `resumeLsn`. */
  isAwaited(resumeLsn: Lsn): boolean {
    return this.#awaited !== null && resumeLsn < this.#awaited;
  }

  /** Whether to hand out an empty batch that ends at `resumeLsn`. */
  isDue(resumeLsn: Lsn): boolean {
    const grown = resumeLsn - this.#handedOut;
    if (grown <= 0n) return false;
    const isReached = this.#awaited !== null && resumeLsn >= this.#awaited;
    if (this.#isReplyRequested || isReached) return true;
    return isAdvanceDue(grown, this.sinceMs, this.#isFollowedUp, this.pace);
  }

  /** Has the stream look again when an advance over much log is due: its tick alone would be up to an interval late. */
  await(resumeLsn: Lsn): void {
    if (resumeLsn - this.#handedOut < minAdvanceBytes) return;
    this.#timer ??= setTimeout(
      () => {
        this.#timer = null;
        this.look();
      },
      Math.max(0, this.pace.advanceMs - this.sinceMs),
    );
  }

  [Symbol.dispose](): void {
    if (this.#timer) clearTimeout(this.#timer);
  }

  handedOutBatch({ count, resumeLsn }: ChangeBatch): void {
    this.#isFollowedUp = count === 0 && resumeLsn - this.#handedOut < minAdvanceBytes;
    // A part of a transaction in progress carries the earlier position where that transaction began.
    if (resumeLsn > this.#handedOut) this.#handedOut = resumeLsn;
    if (this.#awaited !== null && this.#handedOut >= this.#awaited) this.#awaited = null;
    this.#isReplyRequested = false;
    this.#handedOutAt = performance.now();
  }
}
