// Removes columns from a batch's tuples in place, so that a large batch is not in memory twice. For sinks that cannot
// write every column; most batches pass unchanged.

import type { ChangeBatch } from "./change-batch.ts";
import { ChangeKind } from "./change-batch.ts";
import { storedBytes } from "./packed-hex.ts";
import type { Relation } from "./relation.ts";

/**
 * Returns the batch with `relations` instead of its own, and with the columns that `keep` selects, by relation; null:
 * all columns. Where a column is removed, the tuples of `batch` are overwritten: use only the returned batch.
 */
export function projectBatch(
  batch: ChangeBatch,
  relations: readonly Relation[],
  keep: readonly (readonly boolean[] | null)[],
): ChangeBatch {
  if (keep.every((columns) => columns === null)) return { ...batch, relations };
  const { arena } = batch;
  const projected = {
    oldStart: batch.oldStart.slice(),
    oldEnd: batch.oldEnd.slice(),
    newStart: batch.newStart.slice(),
    newEnd: batch.newEnd.slice(),
  };
  // Tuples lie in order and none grows, so writing never overtakes reading.
  let end = 0;
  const project = (i: number, from: Uint32Array, to: Uint32Array, start: Uint32Array, stop: Uint32Array) => {
    if (to[i] === from[i]) return;
    start[i] = end;
    const columns = keep[batch.relation[i]!] ?? null;
    end = columns === null ? move(arena, from[i]!, to[i]!, end) : moveColumns(arena, from[i]!, columns, end);
    stop[i] = end;
  };
  for (let i = 0; i < batch.count; i++) {
    // A truncate's numbers are no offsets into the arena.
    if (batch.kind[i] === ChangeKind.truncate) continue;
    project(i, batch.oldStart, batch.oldEnd, projected.oldStart, projected.oldEnd);
    project(i, batch.newStart, batch.newEnd, projected.newStart, projected.newEnd);
  }
  return { ...batch, ...projected, relations };
}

function move(arena: Uint8Array, start: number, stop: number, to: number): number {
  arena.copyWithin(to, start, stop);
  return to + stop - start;
}

/** Moves the selected columns of the tuple at `start` to `to`. Returns the end of the moved tuple. */
function moveColumns(arena: Uint8Array, start: number, keep: readonly boolean[], to: number): number {
  const view = new DataView(arena.buffer, arena.byteOffset);
  let read = start + 2;
  let write = to + 2;
  for (const isKept of keep) {
    const stop = read + 4 + storedBytes(view.getInt32(read));
    if (isKept) write = move(arena, read, stop, write);
    read = stop;
  }
  view.setInt16(to, keep.filter(Boolean).length);
  return write;
}
