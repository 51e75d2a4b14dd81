// Leaves columns out of a batch's tuples, in their place: a large one is not held twice. For sinks that cannot write all of them; the many
// batches pass as they are.

import type { ChangeBatch } from "./change-batch.ts";
import { ChangeKind } from "./change-batch.ts";
import { storedBytes } from "./packed-hex.ts";
import type { Relation } from "./relation.ts";

/**
 * The batch with `relations` in the place of its own, and of the tuples the columns that `keep` says, by relation; null: all of
 * them. Where something is left out, the tuples of `batch` are written over: only the returned one is to be used.
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
  // Tuples lie in their order and none grows: what is written never catches up with what is read.
  let end = 0;
  const project = (i: number, from: Uint32Array, to: Uint32Array, start: Uint32Array, stop: Uint32Array) => {
    if (to[i] === from[i]) return;
    start[i] = end;
    const columns = keep[batch.relation[i]!] ?? null;
    end = columns === null ? move(arena, from[i]!, to[i]!, end) : moveColumns(arena, from[i]!, columns, end);
    stop[i] = end;
  };
  for (let i = 0; i < batch.count; i++) {
    // Its numbers are no places in the arena.
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

/** Moves the tuple at `start` with these of its columns. Returns where it ends. */
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
