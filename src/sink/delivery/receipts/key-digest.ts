// What receipts keep of a row's key: 48 bits of hashes. Two keys of a table share them with a chance of 1 in 280,000 billion. The first 32
// bits are the identity hash, which the order of requests needs in any case.

import { identityHash } from "../../format/row-identity.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import { tupleOfTexts } from "./tuple-of-texts.ts";

export interface KeyDigest {
  /** `identityHash`, unsigned. */
  readonly hash: number;
  /** 16 bits of another hash. */
  readonly check: number;
}

const prime = 0x85ebca6b;

/** The second hash of the given columns, 16 bits. */
export function checkHash(arena: Uint8Array, view: TupleView, columns: readonly number[]): number {
  let hash = 0x9e3779b9 | 0;
  for (const column of columns) {
    const start = view.starts[column]!;
    const end = start + Math.max(view.lengths[column]!, 0);
    for (let i = start; i < end; i++) hash = Math.imul(hash + arena[i]!, prime) ^ (hash >>> 15);
    hash = Math.imul(hash + 0x1ff, prime);
  }
  return (hash >>> 16) & 0xffff;
}

function rowDigest(arena: Uint8Array, view: TupleView, columns: readonly number[]): KeyDigest {
  return { hash: identityHash(arena, view, columns) >>> 0, check: checkHash(arena, view, columns) };
}

/** Of a row whose key has these texts. */
export function textsDigest(key: readonly string[]): KeyDigest {
  const { arena, view, columns } = tupleOfTexts(key);
  return rowDigest(arena, view, columns);
}
