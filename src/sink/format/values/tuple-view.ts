// Where the columns of one tuple stand in a batch's arena. One view is used again for every row.

import { UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { isPacked, storedBytes } from "../../../change/packed-hex.ts";

/**
 * Column `c` of the tuple read last is `arena[starts[c], starts[c] + lengths[c])`; lengths may be negative.
 */
export class TupleView {
  starts = new Int32Array(64);
  lengths = new Int32Array(64);
  /** Columns of the tuple read last; 0 when there was none. */
  count = 0;
  /** Columns whose bytes are those of a packed value, which are few; see packed-hex.ts. */
  packed: readonly number[] = [];

  /** Reads the tuple at `start`; an empty tuple (`start === end`) has no columns. */
  read(arena: Uint8Array, start: number, end: number): void {
    if (this.packed.length > 0) this.packed = [];
    if (start === end) {
      this.count = 0;
      return;
    }
    const count = (arena[start]! << 8) | arena[start + 1]!;
    if (count > this.starts.length) {
      this.starts = new Int32Array(count);
      this.lengths = new Int32Array(count);
    }
    const { starts, lengths } = this;
    let at = start + 2;
    for (let c = 0; c < count; c++) {
      const length = (arena[at]! << 24) | (arena[at + 1]! << 16) | (arena[at + 2]! << 8) | arena[at + 3]!;
      at += 4;
      starts[c] = at;
      if (isPacked(length)) this.packed = [...this.packed, c];
      lengths[c] = length < 0 ? length : storedBytes(length);
      at += storedBytes(length);
    }
    this.count = count;
  }

  /** It holds values that the source did not send. */
  get isPartial(): boolean {
    for (let c = 0; c < this.count; c++) if (this.lengths[c] === UNCHANGED_LENGTH) return true;
    return false;
  }

  /**
   * Points each value that the source did not send to the old tuple, of the same arena, where that holds it: all of them
   * under identity full, else the key's.
   */
  completeFrom(old: TupleView): void {
    for (let c = 0; c < this.count && c < old.count; c++) {
      if (this.lengths[c] !== UNCHANGED_LENGTH || old.lengths[c]! < 0) continue;
      this.starts[c] = old.starts[c]!;
      this.lengths[c] = old.lengths[c]!;
      if (old.packed.includes(c)) this.packed = [...this.packed, c];
    }
  }
}
