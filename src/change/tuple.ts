// Reads and rewrites single tuples of a batch's arena. For rare rows only: most rows pass untouched.

import { type ChangeBatch, ChangeFlag, NULL_LENGTH, UNCHANGED_LENGTH } from "./change-batch.ts";
import { isPacked, storedBytes } from "./packed-hex.ts";
import { isSystemColumn, type Relation } from "./relation.ts";

/**
 * Where a column of a tuple is: its length in bytes, or the negative length that the tuple stores, and its first byte.
 */
export interface TupleColumn {
  readonly length: number;
  readonly start: number;
  /** The bytes are a packed value; see packed-hex.ts. */
  readonly isPacked: boolean;
}

export function tupleColumns(arena: Uint8Array, at: number): readonly TupleColumn[] {
  const view = new DataView(arena.buffer, arena.byteOffset);
  const count = view.getInt16(at);
  const columns: TupleColumn[] = [];
  let read = at + 2;
  for (let i = 0; i < count; i++) {
    const length = view.getInt32(read);
    const stored = storedBytes(length);
    columns.push({ length: length < 0 ? length : stored, start: read + 4, isPacked: isPacked(length) });
    read += 4 + stored;
  }
  return columns;
}

/** A tuple and the buffer it is in. */
export interface TupleRef {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** Indexes of the columns whose values the source did not send. */
export function unchangedColumns(arena: Uint8Array, at: number): readonly number[] {
  return tupleColumns(arena, at).flatMap((column, i) => (column.length === UNCHANGED_LENGTH ? [i] : []));
}

/**
 * Whether change `i` has the whole old row. A root is announced with identity full while a leaf of it logs the key alone: the old tuple
 * then has null in all other columns. A row that has so in truth counts as not whole too: the key finds it.
 */
export function isOldWhole(batch: ChangeBatch, i: number, { key, columns }: Relation): boolean {
  const start = batch.oldStart[i]!;
  if (start === batch.oldEnd[i]! || (batch.flags[i]! & ChangeFlag.oldIsKey) !== 0) return false;
  const isOther = (c: number) => !key.includes(c) && !isSystemColumn(columns[c]!);
  return (
    key.length === 0 || tupleColumns(batch.arena, start).some(({ length }, c) => length >= 0 && isOther(c))
  );
}

/** A longer row is not copied for a value that the sink's row already has. */
const longRowBytes = 1024 * 1024;

/**
 * The new tuple of change `i`, with values that the source did not send taken from the old tuple where that has them:
 * all of them under identity full, else the key's columns. Where the sink's row keeps its own values, `longest` limits
 * what is taken: the key, and other values up to this length, but nothing else into a long row. Returns the tuple in
 * the arena where nothing is taken.
 */
export function newTuple(
  batch: ChangeBatch,
  i: number,
  key: readonly number[],
  longest = Number.POSITIVE_INFINITY,
): TupleRef {
  const { arena } = batch;
  const [start, end] = [batch.newStart[i]!, batch.newEnd[i]!];
  const [oldStart, oldEnd] = [batch.oldStart[i]!, batch.oldEnd[i]!];
  const asItLies = { bytes: arena, start, end };
  if (oldEnd === oldStart) return asItLies;
  const isLong = end - start > longRowBytes;
  const taken = (column: number, length: number) =>
    longest === Number.POSITIVE_INFINITY || key.includes(column) || (!isLong && length <= longest);
  const old = tupleColumns(arena, oldStart);
  const isAnyTaken = unchangedColumns(arena, start).some((column) => {
    const { length } = old[column]!;
    return length >= 0 && taken(column, length);
  });
  if (!isAnyTaken) return asItLies;
  const bytes = fillUnchanged(arena, start, arena, oldStart, taken);
  return { bytes, start: 0, end: bytes.length };
}

/**
 * Returns a new array with the tuple at `at`, its unchanged columns filled from the tuple at `baseAt` where `taken`
 * agrees and that tuple has a value. A null there means that it has none: a TOASTed value is never null.
 */
export function fillUnchanged(
  arena: Uint8Array,
  at: number,
  base: Uint8Array,
  baseAt: number,
  taken: (column: number, length: number) => boolean = () => true,
): Uint8Array<ArrayBuffer> {
  return tupleOfParts(filledParts(partsOf(arena, at), partsOf(base, baseAt), taken)).bytes;
}

/** A column of a tuple, where it lies. */
export interface TuplePart {
  /** As `TupleColumn` has it. */
  readonly length: number;
  /** Its length field and its bytes. */
  readonly stored: Uint8Array;
}

export function partsOf(arena: Uint8Array, at: number): readonly TuplePart[] {
  return tupleColumns(arena, at).map((column) => ({ length: column.length, stored: slice(arena, column) }));
}

/** As `fillUnchanged`, but copies nothing. */
export function filledParts(
  parts: readonly TuplePart[],
  base: readonly TuplePart[],
  taken: (column: number, length: number) => boolean = () => true,
): readonly TuplePart[] {
  return parts.map((part, i) => {
    const known = part.length === UNCHANGED_LENGTH ? base[i] : undefined;
    return known && known.length >= 0 && taken(i, known.length) ? known : part;
  });
}

/** A new array with the tuple. */
export function tupleOfParts(
  parts: readonly TuplePart[],
): TupleRef & { readonly bytes: Uint8Array<ArrayBuffer> } {
  const bytes = concatTuple(parts.map(({ stored }) => stored));
  return { bytes, start: 0, end: bytes.length };
}

/** The tuple at `at` with null in all columns but those of `key`: enough to find its row. */
export function keyOnlyTuple(arena: Uint8Array, at: number, key: readonly number[]): Uint8Array<ArrayBuffer> {
  const parts = tupleColumns(arena, at).map((column, i) =>
    key.includes(i) ? slice(arena, column) : lengthBytes(NULL_LENGTH),
  );
  return concatTuple(parts);
}

/** The column's length field and its bytes. */
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

/** The tuple with these columns alone. */
export function projectTuple({ bytes, start }: TupleRef, columns: readonly number[]): TupleRef {
  const all = tupleColumns(bytes, start);
  const projected = concatTuple(columns.map((i) => slice(bytes, all[i]!)));
  return { bytes: projected, start: 0, end: projected.length };
}
