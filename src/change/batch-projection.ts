// Leaves columns out of a batch's tuples. For sinks that cannot write all of them: the many batches pass as they are. Pure.

import type { ChangeBatch } from "./change-batch.ts";
import { ChangeKind } from "./change-batch.ts";
import { storedBytes } from "./packed-hex.ts";
import type { Relation } from "./relation.ts";

/**
 * The batch with `relations` in the place of its own, and of the tuples the columns that `keep` says, by relation; null: all of
 * them. The batch itself where nothing is left out.
 */
export function projectBatch(
  batch: ChangeBatch,
  relations: readonly Relation[],
  keep: readonly (readonly boolean[] | null)[],
): ChangeBatch {
  if (keep.every((columns) => columns === null)) return { ...batch, relations };
  const arena = new Uint8Array(batch.arena.length);
  const projected = {
    oldStart: batch.oldStart.slice(),
    oldEnd: batch.oldEnd.slice(),
    newStart: batch.newStart.slice(),
    newEnd: batch.newEnd.slice(),
  };
  let end = 0;
  const project = (i: number, from: Uint32Array, to: Uint32Array, start: Uint32Array, stop: Uint32Array) => {
    if (to[i] === from[i]) return;
    start[i] = end;
    const columns = keep[batch.relation[i]!] ?? null;
    end =
      columns === null
        ? copyBytes(batch.arena, from[i]!, to[i]!, arena, end)
        : copyColumns(batch.arena, from[i]!, columns, arena, end);
    stop[i] = end;
  };
  for (let i = 0; i < batch.count; i++) {
    // Its numbers are no places in the arena.
    if (batch.kind[i] === ChangeKind.truncate) continue;
    project(i, batch.oldStart, batch.oldEnd, projected.oldStart, projected.oldEnd);
    project(i, batch.newStart, batch.newEnd, projected.newStart, projected.newEnd);
  }
  return { ...batch, ...projected, relations, arena };
}

function copyBytes(from: Uint8Array, start: number, stop: number, to: Uint8Array, at: number): number {
  to.set(from.subarray(start, stop), at);
  return at + stop - start;
}

/** The tuple at `start` with these of its columns. Returns where it ends. */
function copyColumns(
  from: Uint8Array,
  start: number,
  keep: readonly boolean[],
  to: Uint8Array,
  at: number,
): number {
  const view = new DataView(from.buffer, from.byteOffset);
  let read = start + 2;
  let write = at + 2;
  for (const isKept of keep) {
    const stop = read + 4 + storedBytes(view.getInt32(read));
    if (isKept) write = copyBytes(from, read, stop, to, write);
    read = stop;
  }
  new DataView(to.buffer).setInt16(at, keep.filter(Boolean).length);
  return write;
}
