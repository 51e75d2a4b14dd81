// Reads and rewrites single tuples of a batch's arena. For the rare rows: the many pass through as they are.

import { type ChangeBatch, NULL_LENGTH, UNCHANGED_LENGTH } from "./change-batch.ts";

/** Where each column of a tuple lies: its length as it stands there, and where its bytes begin. */
export interface TupleColumn {
  readonly length: number;
  readonly start: number;
}

export function tupleColumns(arena: Uint8Array, at: number): readonly TupleColumn[] {
  const view = new DataView(arena.buffer, arena.byteOffset);
  const count = view.getInt16(at);
  const columns: TupleColumn[] = [];
  let read = at + 2;
  for (let i = 0; i < count; i++) {
    const length = view.getInt32(read);
    columns.push({ length, start: read + 4 });
    read += 4 + Math.max(0, length);
  }
  return columns;
}

/** Indexes of the columns whose values the source did not send. */
export function unchangedColumns(arena: Uint8Array, at: number): readonly number[] {
  return tupleColumns(arena, at).flatMap((column, i) => (column.length === UNCHANGED_LENGTH ? [i] : []));
}

/**
 * The new tuple of change `i`, in an array of its own, with what the source left out taken from the old tuple, where that
 * holds it: all of it under identity full, else the key's columns. What is longer than `longest` is left out.
 */
export function newTuple(
  batch: ChangeBatch,
  i: number,
  longest = Number.POSITIVE_INFINITY,
): Uint8Array<ArrayBuffer> {
  const start = batch.newStart[i]!;
  const oldStart = batch.oldStart[i]!;
  if (batch.oldEnd[i]! === oldStart) return batch.arena.slice(start, batch.newEnd[i]!);
  return fillUnchanged(batch.arena, start, batch.arena, oldStart, longest);
}

/**
 * The tuple at `at` with each unchanged column taken from the tuple at `baseAt`, where that holds it, in an array of its own.
 * A null there is a value that it does not hold: what is stored out of line is never null.
 */
export function fillUnchanged(
  arena: Uint8Array,
  at: number,
  base: Uint8Array,
  baseAt: number,
  longest = Number.POSITIVE_INFINITY,
): Uint8Array<ArrayBuffer> {
  const baseColumns = tupleColumns(base, baseAt);
  const parts = tupleColumns(arena, at).map((column, i) => {
    const fromBase = column.length === UNCHANGED_LENGTH ? baseColumns[i] : undefined;
    return fromBase && fromBase.length >= 0 && fromBase.length <= longest
      ? slice(base, fromBase)
      : slice(arena, column);
  });
  return concatTuple(parts);
}

/** The tuple at `at` with null in the place of unchanged columns: for a place that cannot hold "unchanged". */
export function unchangedAsNull(arena: Uint8Array, at: number): Uint8Array<ArrayBuffer> {
  const parts = tupleColumns(arena, at).map((column) =>
    column.length === UNCHANGED_LENGTH ? lengthBytes(NULL_LENGTH) : slice(arena, column),
  );
  return concatTuple(parts);
}

/** The tuple at `at` with null in the place of all but the columns of `key`: enough to find its row by. */
export function keyAlone(arena: Uint8Array, at: number, key: readonly number[]): Uint8Array<ArrayBuffer> {
  const parts = tupleColumns(arena, at).map((column, i) =>
    key.includes(i) ? slice(arena, column) : lengthBytes(NULL_LENGTH),
  );
  return concatTuple(parts);
}

/** Length and bytes of one column. */
function slice(arena: Uint8Array, column: TupleColumn): Uint8Array {
  return arena.subarray(column.start - 4, column.start + Math.max(0, column.length));
}

function lengthBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setInt32(0, length);
  return bytes;
}

function concatTuple(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const tuple = new Uint8Array(2 + parts.reduce((sum, part) => sum + part.length, 0));
  new DataView(tuple.buffer).setInt16(0, parts.length);
  let at = 2;
  for (const part of parts) {
    tuple.set(part, at);
    at += part.length;
  }
  return tuple;
}
