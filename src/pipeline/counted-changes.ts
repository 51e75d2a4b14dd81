// Knows which changes of the stream have been counted. An attempt begins again at the checkpoint, so that the stream brings again what was not durable:
// a change counts once, however often it comes.

import { type ChangeBatch, positionOf } from "../change/change-batch.ts";
import type { Position } from "../change/checkpoint.ts";
import type { Lsn } from "../change/lsn.ts";

/** Since the attempt began. */
export interface ChangeSums {
  rowsIn: number;
  bytesIn: number;
  rowsDurable: number;
  bytesDurable: number;
}

export class CountedChanges {
  readonly sums: ChangeSums = { rowsIn: 0, bytesIn: 0, rowsDurable: 0, bytesDurable: 0 };
  #last: Position | null;

  /** `last`: the last change that earlier attempts of the run have counted; null: they have counted none. */
  constructor(last: Position | null = null) {
    this.#last = last;
  }

  /** The last change that was counted; null: none was. */
  get last(): Position | null {
    return this.#last;
  }

  /**
   * Takes the batch as counted. Returns the index of the first change that was not counted before. The parts of a transaction in progress
   * count once it is committed. Null: it was counted as a whole before.
   */
  take(batch: ChangeBatch): number | null {
    const { inProgress, count } = batch;
    if (inProgress) return this.#takePart(inProgress.commitLsn);
    let first = 0;
    while (first < count && this.#isCounted(positionOf(batch, first))) first++;
    if (first < count) this.#last = positionOf(batch, count - 1);
    return first;
  }

  #takePart(commitLsn: Lsn | null): number | null {
    if (commitLsn === null) return 0;
    const end = { commitLsn, ordinal: Number.MAX_SAFE_INTEGER };
    if (this.#isCounted(end)) return null;
    this.#last = end;
    return 0;
  }

  #isCounted({ commitLsn, ordinal }: Position): boolean {
    if (this.#last === null) return false;
    if (commitLsn !== this.#last.commitLsn) return commitLsn < this.#last.commitLsn;
    return ordinal <= this.#last.ordinal;
  }
}
