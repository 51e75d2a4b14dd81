// Finds rows of a batch by the bytes of their keys. It is an open-addressing hash table over one byte array: a string or a Map entry per row
// would cost more than the rest of the merge.

import { storedBytes } from "../../../change/packed-hex.ts";

/** The indexes of a tuple's key columns, ascending. */
export type KeyColumns = readonly number[];

/** For a tuple up to this size, its whole length is reserved: cheaper than measuring the key. */
const wholeBytes = 4096;

export class KeyIndex {
  /** The number of entries. They are numbered from 0 in the order in which their keys first appeared. */
  size = 0;

  #keys = new Uint8Array(4096);
  #keysEnd = 0;
  #entryStart = new Uint32Array(128);
  #entryEnd = new Uint32Array(128);
  #entryHash = new Uint32Array(128);
  #table = new Int32Array(256).fill(-1);

  constructor(private readonly columns: KeyColumns) {}

  /** The entry of the key in the tuple at `arena[at]`. The key is new if this is the former `size`. */
  entryOf(arena: Uint8Array, at: number, tupleEnd: number): number {
    const start = this.#keysEnd;
    // The key is a small part of a long tuple.
    this.#reserve(tupleEnd - at <= wholeBytes ? tupleEnd - at : this.#keyBytes(arena, at));
    const hash = this.#appendKey(arena, at);
    const mask = this.#table.length - 1;
    let slot = hash & mask;
    while (true) {
      const entry = this.#table[slot]!;
      if (entry < 0) break;
      if (this.#entryHash[entry] === hash && this.#equals(entry, start)) {
        this.#keysEnd = start;
        return entry;
      }
      slot = (slot + 1) & mask;
    }
    return this.#insert(slot, start, hash);
  }

  #keyBytes(arena: Uint8Array, at: number): number {
    let bytes = 0;
    let read = at + 2;
    const last = this.columns.at(-1) ?? -1;
    for (let column = 0; column <= last; column++) {
      const length = 4 + storedBytes(readInt32(arena, read));
      if (this.columns.includes(column)) bytes += length;
      read += length;
    }
    return bytes;
  }

  /** Appends the key columns with their lengths to `#keys`, and returns their hash (FNV-1a). */
  #appendKey(arena: Uint8Array, at: number): number {
    const keys = this.#keys;
    let hash = 0x811c9dc5;
    let write = this.#keysEnd;
    let read = at + 2;
    let column = 0;
    for (const wanted of this.columns) {
      for (; column < wanted; column++) read += 4 + storedBytes(readInt32(arena, read));
      const end = read + 4 + storedBytes(readInt32(arena, read));
      while (read < end) {
        const byte = arena[read++]!;
        keys[write++] = byte;
        hash = Math.imul(hash ^ byte, 0x01000193);
      }
      column++;
    }
    this.#keysEnd = write;
    // The low bits choose the slot: fold the high ones in.
    return (hash ^ (hash >>> 15)) >>> 0;
  }

  #equals(entry: number, start: number): boolean {
    const keys = this.#keys;
    const otherStart = this.#entryStart[entry]!;
    const length = this.#keysEnd - start;
    if (this.#entryEnd[entry]! - otherStart !== length) return false;
    for (let i = 0; i < length; i++) if (keys[start + i] !== keys[otherStart + i]) return false;
    return true;
  }

  #insert(slot: number, start: number, hash: number): number {
    const entry = this.size++;
    if (entry === this.#entryStart.length) this.#growEntries();
    this.#entryStart[entry] = start;
    this.#entryEnd[entry] = this.#keysEnd;
    this.#entryHash[entry] = hash;
    this.#table[slot] = entry;
    if (this.size * 2 > this.#table.length) this.#rehash();
    return entry;
  }

  #reserve(bytes: number): void {
    const needed = this.#keysEnd + bytes;
    if (needed <= this.#keys.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#keys.length * 2));
    grown.set(this.#keys.subarray(0, this.#keysEnd));
    this.#keys = grown;
  }

  #growEntries(): void {
    this.#entryStart = grown(this.#entryStart);
    this.#entryEnd = grown(this.#entryEnd);
    this.#entryHash = grown(this.#entryHash);
  }

  #rehash(): void {
    const table = new Int32Array(this.#table.length * 2).fill(-1);
    const mask = table.length - 1;
    for (let entry = 0; entry < this.size; entry++) {
      let slot = this.#entryHash[entry]! & mask;
      while (table[slot]! >= 0) slot = (slot + 1) & mask;
      table[slot] = entry;
    }
    this.#table = table;
  }
}

export function readInt32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
}

function grown(from: Uint32Array): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(from.length * 2);
  to.set(from);
  return to;
}
