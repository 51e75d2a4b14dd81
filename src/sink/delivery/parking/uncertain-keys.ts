// Keys of messages whose retries were used up, and of what waits behind them. After a restart requests come again that have arrived. Where
// one of them is not answered this time and is parked, those behind it may have arrived too: their rows must not go out under other keys.

import type { ParkedEntry } from "../../../connector/parking.ts";
import type { ParkedEntries } from "./parked-entries.ts";

type Keys = Pick<ParkedEntry, "schema" | "table" | "hashes">;

export class UncertainKeys {
  /** Weak: one that is parked no more, and whose rows never come again, is forgotten. */
  readonly #messages = new WeakSet<ParkedEntry>();

  constructor(private readonly entries: Pick<ParkedEntries, "parked" | "settled">) {}

  add(entry: ParkedEntry): void {
    this.#messages.add(entry);
  }

  /** Of a message: before it is parked. Each one behind an uncertain one is added, so the last one of a chain tells. */
  has({ schema, table, hashes }: Keys): boolean {
    const { parked, settled } = this.entries;
    const isUncertain = (entry: ParkedEntry) => this.#messages.has(entry);
    return [parked, settled].some((index) => index.lastOf(schema, table, hashes).some(isUncertain));
  }
}
