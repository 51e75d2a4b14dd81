// What stands in for a database under a memory sink: it makes a change as a whole or not at all, and plays the faults of the contract's suites.

import { type Checkpoint, reachingTo } from "../../../src/change/checkpoint.ts";
import { untilAborted } from "../../../src/concurrency/until-aborted.ts";
import type { HeldTable } from "./memory-sink.ts";

export interface Held {
  checkpoint: Checkpoint | null;
  /** By their qualified names. */
  readonly tables: Map<string, HeldTable>;
}

/** Its copies are as of places that the stream may not have come to. */
export function standing({ checkpoint, tables }: Held): Checkpoint | null {
  const points = tables.values().map(({ asOf }) => asOf);
  return checkpoint && reachingTo(checkpoint, points);
}

/** Outlives the sinks over it. */
export class MemoryStore {
  held: Held = { checkpoint: null, tables: new Map() };
  /** Runs before each change: may have it wait, or fail. */
  admit: () => Promise<void> = async () => {};
  /** Throws where what is to be held is refused. */
  check: (next: Held) => void = () => {};

  /** Makes a change as a whole, or, where it throws, not at all. `signal` ends the waiting for it. */
  async change<T>(apply: (held: Held) => T, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    return await untilAborted(this.#change(apply), signal);
  }

  async #change<T>(apply: (held: Held) => T): Promise<T> {
    await this.admit();
    const next = structuredClone(this.held);
    const result = apply(next);
    this.check(next);
    this.held = next;
    return result;
  }
}
