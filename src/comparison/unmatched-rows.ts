// The rows of both sides that have no equal on the other one. Equal rows cancel each other out as they come, so that memory holds little more
// than what differs. A hash table over the rows' digests, with open addressing. Pure.

import type { RowKey } from "../change/copy-part.ts";
import type { Side } from "./bucket-differences.ts";
import type { BinaryRow } from "./digest-rows.ts";

const words = 4;
const state = { free: 0, source: 1, sink: 2, matched: 3 } as const;
const firstSlots = 1024;
/** Digest, state, times, and where the key is. */
const slotBytes = words * 4 + 1 + 4 + 4;
/** Digest, key length. */
const digestFields = 2;

export interface RowDifference {
  readonly key: RowKey;
  readonly kind: "Missing" | "Extra" | "Changed";
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class UnmatchedRows {
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
  #keys = new Uint8Array(firstSlots * 16);
  #keysEnd = 0;
  #withoutKey = 0;

  constructor(private readonly keyFields: number) {}

  count(side: Side): number {
    return this.#unmatched[side];
  }

  /** What it has in memory: keys may be long. */
  get bytes(): number {
    return this.#slots * slotBytes + this.#keys.length;
  }

  /** Rows whose key is NULL in one of its columns. They are in no other count, and no difference. */
  get withoutKey(): number {
    return this.#withoutKey;
  }

  /** Takes a row of a scan of kind `rows`. */
  add(side: Side, row: BinaryRow): void {
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
    if (this.#used * 4 > this.#slots * 3) this.#rebuild();
  }

  /**
   * What differs, in parts of so many rows: an object for each of millions of rows would take gigabytes, and hold up the thread for seconds. All
   * rows of a key are in one part. Without keys there is none.
   */
  *differences(rowsPerPart = 2 ** 16): Generator<readonly RowDifference[]> {
    if (this.keyFields === 0) return;
    const { slots, ends } = this.#byKey(rowsPerPart);
    let from = 0;
    for (const end of ends) {
      if (end > from) yield this.#differencesOf(slots.subarray(from, end));
      from = end;
    }
  }

  #differencesOf(slots: Uint32Array): readonly RowDifference[] {
    const kinds = new Map<string, RowDifference["kind"]>();
    for (const slot of slots) {
      const key = JSON.stringify(this.#keyOf(slot));
      const kind = this.#states[slot] === state.source ? "Missing" : "Extra";
      const before = kinds.get(key);
      kinds.set(key, before === undefined || before === kind ? kind : "Changed");
    }
    return [...kinds].map(([key, kind]) => ({ key: JSON.parse(key) as RowKey, kind }));
  }

  /** The slots of all rows, sorted into parts by hashes of their keys; and where each part ends. */
  #byKey(rowsPerPart: number): { readonly slots: Uint32Array; readonly ends: Uint32Array } {
    const rows = this.#countLive();
    const ends = new Uint32Array(2 ** Math.ceil(Math.log2(Math.max(1, rows / rowsPerPart))));
    const view = new DataView(this.#keys.buffer);
    const partOf = (slot: number) => {
      const from = this.#keyAt[slot]!;
      return hashOf(this.#keys, from, keyEnd(view, from, this.keyFields)) & (ends.length - 1);
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
    this.#keyAt[slot] = this.#keep(row.bytes.subarray(from, row.starts[last]! + row.lengths[last]!));
  }

  #keep(key: Uint8Array): number {
    const at = this.#keysEnd;
    if (at + key.length > this.#keys.length) {
      const grown = new Uint8Array(Math.max(at + key.length, this.#keys.length * 2));
      grown.set(this.#keys.subarray(0, at));
      this.#keys = grown;
    }
    this.#keys.set(key, at);
    this.#keysEnd = at + key.length;
    return at;
  }

  #keyOf(slot: number): RowKey {
    const view = new DataView(this.#keys.buffer);
    const key: string[] = [];
    let at = this.#keyAt[slot]!;
    for (let field = 0; field < this.keyFields; field++) {
      const length = view.getInt32(at);
      key.push(decoder.decode(this.#keys.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    return key;
  }

  #isLive(slot: number): boolean {
    return this.#states[slot] === state.source || this.#states[slot] === state.sink;
  }

  #countLive(): number {
    let live = 0;
    for (let slot = 0; slot < this.#slots; slot++) if (this.#isLive(slot)) live++;
    return live;
  }

  /** Drops what has matched, and grows if that is not enough. */
  #rebuild(): void {
    const before = {
      ...{ slots: this.#slots, states: this.#states, digests: this.#digests },
      ...{ times: this.#times, keyAt: this.#keyAt },
    };
    const keys = this.#keys;
    const view = new DataView(keys.buffer);
    const keyOf = (from: number) => keys.subarray(from, keyEnd(view, from, this.keyFields));
    const live = this.#countLive();
    this.#slots = Math.max(firstSlots, 2 ** Math.ceil(Math.log2((live + 1) * 2)));
    this.#digests = new Int32Array(this.#slots * words);
    this.#states = new Uint8Array(this.#slots);
    this.#times = new Uint32Array(this.#slots);
    this.#keyAt = new Uint32Array(this.#slots);
    this.#keys = new Uint8Array(Math.max(firstSlots, keys.length >> 1));
    this.#keysEnd = 0;
    this.#used = live;
    for (let slot = 0; slot < before.slots; slot++) {
      const at = before.states[slot]!;
      if (at !== state.source && at !== state.sink) continue;
      const digest = before.digests.subarray(slot * words, slot * words + words);
      let to = digest[3]! & (this.#slots - 1);
      while (this.#states[to] !== state.free) to = (to + 1) & (this.#slots - 1);
      this.#states[to] = at;
      this.#times[to] = before.times[slot]!;
      this.#digests.set(digest, to * words);
      if (this.keyFields > 0) this.#keyAt[to] = this.#keep(keyOf(before.keyAt[slot]!));
    }
  }
}

/** Where the key ends that begins at `from`. */
function keyEnd(keys: DataView, from: number, fields: number): number {
  let end = from;
  for (let field = 0; field < fields; field++) end += 4 + keys.getInt32(end);
  return end;
}

/** FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
function hashOf(bytes: Uint8Array, from: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let at = from; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  return hash ^ (hash >>> 15);
}
