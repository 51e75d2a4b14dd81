// The rows of both sides that have no equal on the other one. Equal rows cancel each other out as they come, so that memory holds little more
// than what differs. A hash table over the rows' digests, with open addressing.

import type { RowKey } from "../change/copy-part.ts";
import { GcPacer } from "../memory/gc-pacer.ts";
import { releaseBytes } from "../memory/release-bytes.ts";
import type { Side } from "./bucket-differences.ts";
import type { BinaryRow } from "./digest-rows.ts";

const words = 4;
const state = { free: 0, source: 1, sink: 2, matched: 3 } as const;
const firstSlots = 1024;
const firstKeyBytes = firstSlots * 16;
/** Digest, state, times, and where the key is. */
const slotBytes = words * 4 + 1 + 4 + 4;
/** About: of a row's key and kind, as objects. */
const differenceBytes = 256;
/** Digest, key length. */
const digestFields = 2;

export interface RowDifference {
  readonly key: RowKey;
  readonly kind: "Missing" | "Extra" | "Changed";
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class UnmatchedRows implements Disposable {
  #slots = firstSlots;
  #digests = new Int32Array(firstSlots * words);
  #states = new Uint8Array(firstSlots);
  /** How many equal rows the slot stands for. Each in a slot of its own, millions of them would be one long way to search. */
  #times = new Uint32Array(firstSlots);
  /** Where the row's key is in `#keys`. */
  #keyAt = new Uint32Array(firstSlots);
  /** Slots that are not free. */
  #used = 0;
  readonly #unmatched = { source: 0, sink: 0 };
  /** Keys, each as the int32 lengths and bytes of its fields. */
  #keys = new Uint8Array(firstKeyBytes);
  #keysEnd = 0;
  #withoutKey = 0;
  #isFull = false;

  /** `maxBytes`: what it has in memory at most, also while it grows. */
  constructor(
    private readonly keyFields: number,
    private readonly maxBytes = Number.POSITIVE_INFINITY,
  ) {}

  count(side: Side): number {
    return this.#unmatched[side];
  }

  /** What it has in memory: keys may be long. */
  get bytes(): number {
    return this.#slots * slotBytes + this.#keys.length;
  }

  /** It takes no more rows, and what it has taken is of no use. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Rows whose key is NULL in one of its columns. They are in no other count, and no difference. */
  get withoutKey(): number {
    return this.#withoutKey;
  }

  /** Takes a row of a scan of kind `rows`. */
  add(side: Side, row: BinaryRow): void {
    if (this.#isFull) return;
    if (this.#lacksKey(row)) {
      this.#withoutKey++;
      return;
    }
    const other = side === "source" ? "sink" : "source";
    let reusable = -1;
    for (let slot = row.int32(1, 4) & (this.#slots - 1); ; slot = (slot + 1) & (this.#slots - 1)) {
      const at = this.#states[slot];
      if (at === state.free) {
        if (reusable < 0) this.#used++;
        this.#put(reusable < 0 ? slot : reusable, side, row);
        break;
      }
      if (at === state.matched) {
        if (reusable < 0) reusable = slot;
      } else if (this.#isDigest(slot, row)) {
        this.#again(slot, at === state[other] ? other : null, side);
        return;
      }
    }
    if (!this.#isFull && this.#used * 4 > this.#slots * 3) this.#rebuild();
  }

  /**
   * What differs, in parts of so many rows: an object for each of millions of rows would take gigabytes, and hold up the thread for seconds. All
   * rows of a key are in one part. Without keys there is none.
   */
  *differences(rowsPerPart = 2 ** 16): Generator<readonly RowDifference[]> {
    if (this.keyFields === 0) return;
    const { slots, ends } = this.#byKey(rowsPerPart);
    const passed = new GcPacer();
    let from = 0;
    for (const end of ends) {
      if (end > from) yield this.#differencesOf(slots.subarray(from, end));
      passed.released((end - from) * differenceBytes);
      from = end;
    }
  }

  #differencesOf(slots: Uint32Array): readonly RowDifference[] {
    const found = new Map<string, RowDifference>();
    for (const slot of slots) {
      const key = this.#keyOf(slot);
      const id = key.length === 1 ? key[0]! : JSON.stringify(key);
      const kind = this.#states[slot] === state.source ? "Missing" : "Extra";
      const before = found.get(id);
      if (before?.kind !== kind) found.set(id, { key, kind: before === undefined ? kind : "Changed" });
    }
    return [...found.values()];
  }

  /** The slots of all rows, sorted into parts by hashes of their keys; and where each part ends. */
  #byKey(rowsPerPart: number): { readonly slots: Uint32Array; readonly ends: Uint32Array } {
    const { live: rows } = this.#sizeOfLive();
    const ends = new Uint32Array(2 ** Math.ceil(Math.log2(Math.max(1, rows / rowsPerPart))));
    const partOf = (slot: number) => {
      const from = this.#keyAt[slot]!;
      return hashOf(this.#keys, from, this.#keyEnd(this.#keys, from)) & (ends.length - 1);
    };
    for (let slot = 0; slot < this.#slots; slot++) if (this.#isLive(slot)) ends[partOf(slot)]!++;
    let before = 0;
    for (let part = 0; part < ends.length; part++) {
      const inPart = ends[part]!;
      ends[part] = before;
      before += inPart;
    }
    const slots = new Uint32Array(rows);
    for (let slot = 0; slot < this.#slots; slot++)
      if (this.#isLive(slot)) slots[ends[partOf(slot)]!++] = slot;
    return { slots, ends };
  }

  #lacksKey({ lengths }: BinaryRow): boolean {
    for (let field = 0; field < this.keyFields; field++) if (lengths[digestFields + field]! < 0) return true;
    return false;
  }

  /** `other`: the side of the slot's rows, if it is not the row's. */
  #again(slot: number, other: Side | null, side: Side): void {
    if (other === null) {
      this.#times[slot]!++;
      this.#unmatched[side]++;
      return;
    }
    this.#unmatched[other]--;
    if (--this.#times[slot]! === 0) this.#states[slot] = state.matched;
  }

  #isDigest(slot: number, row: BinaryRow): boolean {
    const at = slot * words;
    return (
      this.#digests[at] === row.int32(0) &&
      this.#digests[at + 1] === row.int32(0, 4) &&
      this.#digests[at + 2] === row.int32(1) &&
      this.#digests[at + 3] === row.int32(1, 4)
    );
  }

  #put(slot: number, side: Side, row: BinaryRow): void {
    for (let word = 0; word < words; word++)
      this.#digests[slot * words + word] = row.int32(word >> 1, (word & 1) * 4);
    this.#states[slot] = state[side];
    this.#times[slot] = 1;
    this.#unmatched[side]++;
    if (this.keyFields === 0) return;
    const from = row.starts[digestFields]! - 4;
    const last = digestFields + this.keyFields - 1;
    this.#keyAt[slot] = this.#keep(row.bytes, from, row.starts[last]! + row.lengths[last]!);
  }

  /** Without an object for each key: millions of them are more garbage than all keys. */
  #keep(bytes: Uint8Array, from: number, end: number): number {
    const at = this.#keysEnd;
    const needed = at + end - from;
    if (needed > this.#keys.length) {
      const length = Math.max(needed, this.#keys.length * 2);
      if (!this.#hasRoomFor(length)) return at;
      const before = this.#keys;
      this.#keys = new Uint8Array(length);
      this.#keys.set(before.subarray(0, at));
      releaseBytes(before);
    }
    for (let byte = from; byte < end; byte++) this.#keys[at + byte - from] = bytes[byte]!;
    this.#keysEnd = needed;
    return at;
  }

  #keyOf(slot: number): RowKey {
    const key: string[] = [];
    let at = this.#keyAt[slot]!;
    for (let field = 0; field < this.keyFields; field++) {
      const length = int32At(this.#keys, at);
      key.push(decoder.decode(this.#keys.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    return key;
  }

  /** Where the key ends that begins at `from`. */
  #keyEnd(keys: Uint8Array, from: number): number {
    let end = from;
    for (let field = 0; field < this.keyFields; field++) end += 4 + int32At(keys, end);
    return end;
  }

  #isLive(slot: number): boolean {
    return this.#states[slot] === state.source || this.#states[slot] === state.sink;
  }

  #sizeOfLive(): { readonly live: number; readonly keyBytes: number } {
    let live = 0;
    let keyBytes = 0;
    for (let slot = 0; slot < this.#slots; slot++) {
      if (!this.#isLive(slot)) continue;
      live++;
      keyBytes += this.#keyEnd(this.#keys, this.#keyAt[slot]!) - this.#keyAt[slot]!;
    }
    return { live, keyBytes };
  }

  /** Until it has moved there, what it has is in memory twice. */
  #hasRoomFor(bytes: number): boolean {
    this.#isFull ||= this.bytes + bytes > this.maxBytes;
    return !this.#isFull;
  }

  /** Drops what has matched, and grows if that is not enough. */
  #rebuild(): void {
    const before = this.#slotArrays();
    const [digests, states, times, keyAt] = before;
    const keys = this.#keys;
    const { live, keyBytes } = this.#sizeOfLive();
    const slots = Math.max(firstSlots, 2 ** Math.ceil(Math.log2((live + 1) * 2)));
    const isKeyMoved = keyBytes * 2 < this.#keysEnd;
    const keysLength = isKeyMoved ? Math.max(firstKeyBytes, keyBytes * 2) : 0;
    if (!this.#hasRoomFor(slots * slotBytes + keysLength)) return;
    this.#slots = slots;
    this.#digests = new Int32Array(slots * words);
    this.#states = new Uint8Array(slots);
    this.#times = new Uint32Array(slots);
    this.#keyAt = new Uint32Array(slots);
    this.#used = live;
    if (isKeyMoved) {
      this.#keys = new Uint8Array(keysLength);
      this.#keysEnd = 0;
    }
    for (let slot = 0; slot < states.length; slot++) {
      const at = states[slot]!;
      if (at !== state.source && at !== state.sink) continue;
      let to = digests[slot * words + 3]! & (slots - 1);
      while (this.#states[to] !== state.free) to = (to + 1) & (slots - 1);
      this.#states[to] = at;
      this.#times[to] = times[slot]!;
      for (let word = 0; word < words; word++)
        this.#digests[to * words + word] = digests[slot * words + word]!;
      const from = keyAt[slot]!;
      this.#keyAt[to] = isKeyMoved ? this.#keep(keys, from, this.#keyEnd(keys, from)) : from;
    }
    for (const array of before) releaseBytes(array);
    if (isKeyMoved) releaseBytes(keys);
  }

  #slotArrays() {
    return [this.#digests, this.#states, this.#times, this.#keyAt] as const;
  }

  /** Nothing may be asked of it afterwards. */
  [Symbol.dispose](): void {
    for (const array of [...this.#slotArrays(), this.#keys]) releaseBytes(array);
  }
}

function int32At(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
}

/** FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
function hashOf(bytes: Uint8Array, from: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let at = from; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  return hash ^ (hash >>> 15);
}
