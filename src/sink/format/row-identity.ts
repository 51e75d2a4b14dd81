// What tells rows apart. All of it reads the key columns of a tuple, or all columns of a table without a key.

import type { RowKey } from "../../change/copy-part.ts";
import type { TupleView } from "./values/tuple-view.ts";

/** A text may begin with a byte order mark, which is a part of it. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

const fnvOffset = 0x811c9dc5 | 0;
const fnvPrime = 0x01000193;

/** FNV-1a over the given columns, 32 bits. It decides which requests wait for each other: two rows that share it by chance only wait. */
export function identityHash(arena: Uint8Array, view: TupleView, columns: readonly number[]): number {
  let hash = fnvOffset;
  for (const column of columns) {
    const start = view.starts[column]!;
    const end = start + Math.max(view.lengths[column]!, 0);
    for (let i = start; i < end; i++) hash = Math.imul(hash ^ arena[i]!, fnvPrime);
    // Separates columns, so that ("a","bc") is not ("ab","c").
    hash = Math.imul(hash ^ 0x1ff, fnvPrime);
  }
  return hash;
}

/** Not known to anybody who chooses keys: two keys that share a hash would be taken for one, and one of the rows left out. */
const secret = crypto.getRandomValues(new BigUint64Array(1))[0]!;

/** A hash of a row's key, 64 bits: rows that share it are taken for one. It holds in this thread alone. Null where the tuple does not hold the key. */
export function keyHash(arena: Uint8Array, view: TupleView, key: readonly number[]): bigint | null {
  let hash = secret;
  for (const column of key) {
    const length = view.lengths[column]!;
    if (length < 0 || view.packed.includes(column)) return null;
    const start = view.starts[column]!;
    hash = Bun.hash.wyhash(arena.subarray(start, start + length), hash) as bigint;
  }
  return hash;
}

/** `keyHash` of a row whose key has these texts. */
export function keyTextsHash(key: RowKey): bigint {
  return key.reduce((hash, text) => Bun.hash.wyhash(encoder.encode(text), hash) as bigint, secret);
}

/** The texts of a row's key; null where the tuple does not hold them. */
export function keyTexts(arena: Uint8Array, view: TupleView, key: readonly number[]): RowKey | null {
  if (key.some((column) => view.lengths[column]! < 0 || view.packed.includes(column))) return null;
  return key.map((column) => {
    const start = view.starts[column]!;
    return decoder.decode(arena.subarray(start, start + view.lengths[column]!));
  });
}

/**
 * Whether the old and the new tuple differ in a key column. A column that the change did not send is the
 * same.
 */
export function keyChanged(
  arena: Uint8Array,
  before: TupleView,
  after: TupleView,
  key: readonly number[],
): boolean {
  for (const column of key) {
    const beforeLength = before.lengths[column]!;
    const afterLength = after.lengths[column]!;
    // A key column is never null: a null in the old tuple is one that the replica identity does not hold.
    if (beforeLength < 0 || afterLength < 0) continue;
    if (beforeLength !== afterLength) return true;
    const beforeStart = before.starts[column]!;
    const afterStart = after.starts[column]!;
    for (let i = 0; i < afterLength; i++) {
      if (arena[beforeStart + i] !== arena[afterStart + i]) return true;
    }
  }
  return false;
}
