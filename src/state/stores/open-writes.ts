// Writes of runs that have not ended. A run may end without the answers to its writes: so the next one waits for them. The state fails what it
// has not answered in time.

export class OpenWrites {
  readonly #ofConnectors = new Map<string, Set<Promise<unknown>>>();

  /** Resolves and rejects as the write does. */
  async add(connectorId: string, write: Promise<unknown>): Promise<void> {
    const writes = this.#ofConnectors.getOrInsertComputed(connectorId, () => new Set());
    writes.add(write);
    try {
      await write;
    } finally {
      writes.delete(write);
      if (writes.size === 0) this.#ofConnectors.delete(connectorId);
    }
  }

  /** Resolves when those that were added before have ended, as they may. */
  async ended(connectorId: string): Promise<void> {
    await Promise.allSettled(this.#ofConnectors.get(connectorId) ?? []);
  }
}
