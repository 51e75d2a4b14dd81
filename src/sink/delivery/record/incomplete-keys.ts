// Keys of rows that a receiver may hold in part alone. Each is kept once, and not too many: the sink's record holds them. A key whose row
// was copied stays until the stream is where that was: until then it may bring that the row has another key.

import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { keyTextsHash } from "../../format/row-identity.ts";

/** From here on their rows are copied, though more keys may come. */
const ample = { keys: 2_000, bytes: 32 * 1024 };
/** More are not recorded. */
const most = { keys: 40_000, bytes: 1024 * 1024 };

export class IncompleteKeys {
  /** By `keyHash`. */
  readonly #waiting = new Map<bigint, RowKey>();
  readonly #copied = new Map<bigint, RowKey>();
  #copiedAt: Lsn = zeroLsn;
  #bytes = 0;
  #changes = 0;

  constructor(keys: Iterable<RowKey> = []) {
    for (const key of keys) this.add(key);
  }

  /** Another number when the keys are others. */
  get changes(): number {
    return this.#changes;
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  get isAmple(): boolean {
    return this.#size >= ample.keys || this.#bytes >= ample.bytes;
  }

  get isTooMany(): boolean {
    return this.#size > most.keys || this.#bytes > most.bytes;
  }

  /** Rows are still to be copied. */
  get areSomeWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Where the stream has to come before keys of copied rows go; zero: there are none. */
  get copiedAt(): Lsn {
    return this.#copiedAt;
  }

  list(): readonly RowKey[] {
    return [...this.#waiting.values(), ...this.#copied.values()];
  }

  /** Of rows that are still to be copied: no more than `most` of them. */
  waiting(most: number): readonly RowKey[] {
    return [...this.#waiting.values().take(most)];
  }

  has(hash: bigint): boolean {
    return this.#waiting.has(hash) || this.#copied.has(hash);
  }

  /** A row that was copied under this key may be no more. */
  add(key: RowKey, hash = keyTextsHash(key)): void {
    if (!this.has(hash)) {
      this.#bytes += bytesOf(key);
      this.#changes++;
    }
    this.#copied.delete(hash);
    this.#waiting.set(hash, key);
  }

  delete(hash: bigint): void {
    const key = this.#waiting.get(hash) ?? this.#copied.get(hash);
    if (!key) return;
    this.#waiting.delete(hash);
    this.#copied.delete(hash);
    this.#bytes -= bytesOf(key);
    this.#changes++;
  }

  clear(): void {
    for (const hash of [...this.#waiting.keys(), ...this.#copied.keys()]) this.delete(hash);
  }

  /** The rows of these keys are delivered as they are as of `point`. */
  copied(keys: readonly RowKey[], point: Lsn): void {
    for (const key of keys) {
      const hash = keyTextsHash(key);
      if (this.#waiting.delete(hash)) this.#copied.set(hash, key);
    }
    if (this.#copied.size > 0 && point > this.#copiedAt) this.#copiedAt = point;
  }

  /** The stream has come to `at`. */
  passed(at: Lsn): void {
    if (this.#copiedAt === zeroLsn || at < this.#copiedAt) return;
    for (const hash of [...this.#copied.keys()]) this.delete(hash);
    this.#copiedAt = zeroLsn;
  }

  get #size(): number {
    return this.#waiting.size + this.#copied.size;
  }
}

/** About what the record takes. */
function bytesOf(key: RowKey): number {
  return key.reduce((sum, text) => sum + text.length + 3, 1);
}
