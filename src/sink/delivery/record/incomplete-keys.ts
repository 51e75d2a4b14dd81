// Keys of rows that a receiver may hold in part alone. Each is kept once, and not too many: the sink's record holds them.

import type { RowKey } from "../../../change/copy-part.ts";

/** From here on their rows are copied, though more keys may come. */
const ample = { keys: 2_000, bytes: 32 * 1024 };
/** More are not recorded. */
const most = { keys: 40_000, bytes: 1024 * 1024 };

export class IncompleteKeys {
  readonly #keys = new Map<string, RowKey>();
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
    return this.#keys.size === 0;
  }

  get isAmple(): boolean {
    return this.#keys.size >= ample.keys || this.#bytes >= ample.bytes;
  }

  get isTooMany(): boolean {
    return this.#keys.size > most.keys || this.#bytes > most.bytes;
  }

  list(): readonly RowKey[] {
    return [...this.#keys.values()];
  }

  add(key: RowKey): void {
    const text = JSON.stringify(key);
    if (this.#keys.has(text)) return;
    this.#keys.set(text, key);
    this.#bytes += text.length;
    this.#changes++;
  }

  delete(key: RowKey): void {
    const text = JSON.stringify(key);
    if (!this.#keys.delete(text)) return;
    this.#bytes -= text.length;
    this.#changes++;
  }
}
