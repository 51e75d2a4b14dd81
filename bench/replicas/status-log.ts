// When replicas said in their logs that a connector came to a state. They run on one machine, so that their clocks are one.

interface Entry {
  readonly connector: string;
  readonly state: string;
  readonly atMs: number;
}

interface Waiting {
  isIt(entry: Entry): boolean;
  found(atMs: number): void;
}

export class StatusLog {
  readonly #waiting = new Set<Waiting>();

  readonly read = (line: string): void => {
    const entry = entryOf(line);
    if (!entry) return;
    for (const waiting of this.#waiting) {
      if (!waiting.isIt(entry)) continue;
      this.#waiting.delete(waiting);
      waiting.found(entry.atMs);
    }
  };

  /** Resolves with the time by the wall clock. Call it before what leads there. */
  next(connector: string, state: string): Promise<number> {
    return new Promise((found) => {
      const isIt = (entry: Entry) => entry.connector === connector && entry.state === state;
      this.#waiting.add({ isIt, found });
    });
  }
}

function entryOf(line: string): Entry | null {
  if (!line.startsWith("{")) return null;
  const { msg, connector, state, time } = JSON.parse(line) as Record<string, unknown>;
  if (msg !== "connector status" || typeof connector !== "string") return null;
  return { connector, state: String(state), atMs: Date.parse(String(time)) };
}
