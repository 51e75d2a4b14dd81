// Reads what other replicas report of the connectors that they hold, twice a second while there are other replicas.

import { parseRunReport, parseTables } from "../../connector/service/run-report.ts";
import type { TableStatus } from "../../connector/table-status.ts";
import type { Log } from "../../log.ts";
import type { StoredReport } from "../../state/stores/report-store.ts";
import type { ReportElsewhere, ReportsElsewhere } from "../status/statuses.ts";

export interface ReportReaderContext {
  readonly store: {
    /** Reports on statuses by others, above the versions that were seen of each holder. */
    since(self: string, seen: ReadonlyMap<string, number>): Promise<readonly StoredReport[]>;
    tables(connectorId: string): Promise<string | null>;
  };
  /** This life of the replica. */
  readonly self: string;
  readonly hasOthers: () => boolean;
  /** A report has come, which may say the same as the last one. Must neither block nor throw. */
  readonly came: (connectorId: string, report: ReportElsewhere) => void;
  readonly log: Pick<Log, "warn">;
  /** Never set back. */
  readonly monotonicMs: () => number;
  /** Returns what ends it. */
  readonly schedule: (ms: number, work: () => void) => () => void;
}

/** From the beginning of a poll to the next one. */
const readMs = 500;

interface Known {
  readonly holder: string;
  /** Null: this version does not understand it. */
  readonly report: ReportElsewhere | null;
}

export class ReportReader implements ReportsElsewhere, AsyncDisposable {
  readonly #known = new Map<string, Known>();
  /** The newest version that was read of each holder. */
  #seen: ReadonlyMap<string, number> = new Map();
  #cancel: (() => void) | null = null;
  #reading: Promise<void> | null = null;
  #isFailing = false;
  #isClosed = false;

  constructor(private readonly context: ReportReaderContext) {}

  start(): void {
    if (this.#isClosed) return;
    const beganMs = this.context.monotonicMs();
    this.#reading = this.#poll().finally(() => {
      this.#reading = null;
      if (this.#isClosed) return;
      const restMs = Math.max(0, beganMs + readMs - this.context.monotonicMs());
      this.#cancel = this.context.schedule(restMs, () => this.start());
    });
  }

  latest(id: string): ReportElsewhere | null {
    return this.#known.get(id)?.report ?? null;
  }

  *all(): Iterable<readonly [string, ReportElsewhere]> {
    for (const [id, { report }] of this.#known) if (report) yield [id, report];
  }

  async tables(id: string): Promise<readonly TableStatus[]> {
    const text = await this.context.store.tables(id);
    return text === null ? [] : (parseTables(text) ?? []);
  }

  /**
   * The connector is deleted, or this replica holds it from now on: what another one has reported is over. Its next
   * holder reports anew.
   */
  forget(connectorId: string): void {
    this.#known.delete(connectorId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#reading;
  }

  async #poll(): Promise<void> {
    if (!this.context.hasOthers()) return;
    try {
      this.#take(await this.context.store.since(this.context.self, this.#seen));
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing)
        this.context.log.warn({ error }, "what other replicas report cannot be read at present");
      this.#isFailing = true;
    }
  }

  #take(read: readonly StoredReport[]): void {
    if (read.length === 0 || this.#isClosed) return;
    const seen = new Map(this.#seen);
    for (const { connectorId, holder, version, body } of read) {
      seen.set(holder, Math.max(version, seen.get(holder) ?? 0));
      const report = parseRunReport(body);
      const elsewhere = report && { holder, report };
      this.#known.set(connectorId, { holder, report: elsewhere });
      if (elsewhere) this.context.came(connectorId, elsewhere);
    }
    // Lives of replicas that are long gone would gather. What is read of one anew is right in any case.
    const holders = new Set([...this.#known.values()].map(({ holder }) => holder));
    this.#seen = new Map([...seen].filter(([holder]) => holders.has(holder)));
  }
}
