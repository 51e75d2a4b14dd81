// Keys of rows that are to be copied by themselves, each once and not too many: they are noted in the sink's record.

import type { RowKey } from "../../../change/copy-part.ts";

/** From here on it is time to copy them, though more may come. */
const ample = { keys: 2_000, bytes: 32 * 1024 };
/** Beyond these they are not noted any more. */
const most = { keys: 40_000, bytes: 1024 * 1024 };

export class OwedKeys {
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
