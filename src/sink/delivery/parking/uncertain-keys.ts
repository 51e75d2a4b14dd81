// Keys of messages whose retries were used up, and of what waits behind them. After a restart requests come again that have arrived. Where
// one of them is not answered this time and is parked, those behind it may have arrived too: their rows must not go out under other keys.

import type { ParkedEntry } from "../../../connector/parking.ts";
import { tableKey } from "../table-key.ts";

type Keys = Pick<ParkedEntry, "schema" | "table" | "hashes">;

export class UncertainKeys {
  /** By table. Null: all of its keys. */
  readonly #tables = new Map<string, Set<number> | null>();

  add({ isWide, ...keys }: Keys & Pick<ParkedEntry, "isWide">): void {
    const name = tableKey(keys.schema, keys.table);
    if (isWide) this.#tables.set(name, null);
    const known = this.#tables.getOrInsertComputed(name, () => new Set());
    for (const hash of known ? keys.hashes : []) known?.add(hash);
  }

  has(keys: Keys): boolean {
    const known = this.#tables.get(tableKey(keys.schema, keys.table));
    if (known === undefined) return false;
    return known === null || keys.hashes.length === 0 || keys.hashes.some((hash) => known.has(hash));
  }

  clear(): void {
    this.#tables.clear();
  }
}
