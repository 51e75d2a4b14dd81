// Tells which keys cannot be in a batch of receipts: a Bloom filter (Bloom, 1970), with two hashes that make all others (Kirsch and
// Mitzenmacher, 2006). The state looks into it with SQL: see `filterProbes`. Pure.

import { tableKey } from "../table-key.ts";

const bitsPerKey = 10;
const probes = 4;

/** A hash of the table's name, which is mixed with those of its keys. */
export function tableHash(schema: string, table: string): number {
  return Bun.hash.xxHash32(tableKey(schema, table));
}

/** 32 bits of a key of a table. `hash`: `KeyDigest.hash`. */
export function filterKey(table: number, hash: number): number {
  return mixed(table ^ mixed(hash));
}

/** `keys`: of `filterKey`. */
export function keyFilter(keys: ArrayLike<number>, count = keys.length): Uint8Array {
  const bytes = Math.ceil(Math.max(count * bitsPerKey, 64) / 8);
  const filter = new Uint8Array(bytes);
  const bits = bytes * 8;
  for (let i = 0; i < count; i++) {
    const step = stepOf(keys[i]!);
    let at = keys[i]!;
    for (let probe = 0; probe < probes; probe++) {
      const bit = placeOf(at >>> 0, bits);
      filter[bit >>> 3]! |= 1 << (bit & 7);
      at = (at + step) | 0;
    }
  }
  return filter;
}

/**
 * Numbers of 32 bits: for each, bit `(number * bits) >> 32` of the filter is set where it may hold the key. Bits count from the lowest of the
 * first byte, as `get_bit` of Postgres counts them.
 */
export function filterProbes(key: number): readonly number[] {
  const step = stepOf(key);
  return Array.from({ length: probes }, (_, probe) => (key + probe * step) >>> 0);
}

export function mayHold(filter: Uint8Array, key: number): boolean {
  return filterProbes(key).every((probe) => {
    const bit = placeOf(probe, filter.length * 8);
    return (filter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  });
}

/** Exact: the product is below 2^53. */
function placeOf(probe: number, bits: number): number {
  return Math.floor((probe * bits) / 4294967296);
}

function stepOf(key: number): number {
  return (mixed(key ^ 0x5bd1e995) | 1) >>> 0;
}

/** The finalizer of MurmurHash3, 32 bits. */
function mixed(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
