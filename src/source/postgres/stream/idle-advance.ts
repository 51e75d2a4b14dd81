// When a stream that has nothing to hand out says how far it is: over log that holds nothing for us, from time to time; to a server
// that is being stopped; and to somebody who waits for a place. How often is in feedback.ts.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { isAdvanceDue, type StreamPace, worthwhileBytes } from "./feedback.ts";

export class IdleAdvance {
  /** What the last batch that was handed out said, and when. */
  #handedOut: Lsn;
  #handedOutAt = performance.now();
  #isFollowedUp = false;
  #isAsked = false;
  /** Where somebody waits for the stream to come to; null: nobody does. */
  #wanted: Lsn | null = null;

  constructor(
    start: Lsn,
    private readonly pace: StreamPace,
  ) {
    this.#handedOut = start;
  }

  get handedOut(): Lsn {
    return this.#handedOut;
  }

  get sinceMs(): number {
    return performance.now() - this.#handedOutAt;
  }

  /** The server wants to know how far we are. */
  ask(): void {
    this.#isAsked = true;
  }

  reach(lsn: Lsn): void {
    if (lsn > this.#handedOut && (this.#wanted === null || lsn > this.#wanted)) this.#wanted = lsn;
  }

  /** Whether somebody waits for a place that nothing has told of yet. */
  isWaitedFor(resumeLsn: Lsn): boolean {
    return this.#wanted !== null && resumeLsn < this.#wanted;
  }

  /** Whether an empty batch is to be handed out, which says that all before `resumeLsn` has been. */
  isDue(resumeLsn: Lsn): boolean {
    const grown = resumeLsn - this.#handedOut;
    if (grown <= 0n) return false;
    const isThere = this.#wanted !== null && resumeLsn >= this.#wanted;
    return this.#isAsked || isThere || isAdvanceDue(grown, this.sinceMs, this.#isFollowedUp, this.pace);
  }

  hands({ count, resumeLsn }: ChangeBatch): void {
    this.#isFollowedUp = count === 0 && resumeLsn - this.#handedOut < worthwhileBytes;
    // A part of a transaction in progress says where that was begun.
    if (resumeLsn > this.#handedOut) this.#handedOut = resumeLsn;
    if (this.#wanted !== null && this.#handedOut >= this.#wanted) this.#wanted = null;
    this.#isAsked = false;
    this.#handedOutAt = performance.now();
  }
}
