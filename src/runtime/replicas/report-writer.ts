// Writes into the state what this replica knows of the connectors that it holds, so that every other replica can show it.
// It looks at all of them twice a second, and at those whose status changes at once; what is new goes out in one statement.
// While the state is away nothing gathers: the next look has the newest of each.

import type { RunReport } from "../../connector/service/run-report.ts";
import type { TableStatus } from "../../connector/table-status.ts";
import type { Log } from "../../log.ts";
import type { NewReport } from "../../state/stores/report-store.ts";
import type { StatusWatch } from "../status/status-watch.ts";
import { areTablesDue, changeMs, isStatusDue, type Written, writeMs } from "./report-decisions.ts";

export interface ReportWriterContext {
  /** In one statement. What an older term reports is dropped. */
  readonly store: { save(holder: string, reports: readonly NewReport[]): Promise<void> };
  /** This life of the replica. */
  readonly holder: string;
  /** Alone, nobody reads what is written. */
  readonly hasOthers: () => boolean;
  /** Whether this replica holds the connector now, by the clock. */
  readonly holds: (connectorId: string) => boolean;
  /** Null: nothing is known yet. */
  readonly report: (connectorId: string) => RunReport | null;
  readonly tables: {
    /** Rises with each change; null: nothing is known. */
    revision(connectorId: string): number | null;
    list(connectorId: string, runId: string): readonly TableStatus[];
  };
  readonly log: Pick<Log, "warn">;
  /** Never set back. */
  readonly monotonicMs: () => number;
  /** Returns what ends it. */
  readonly schedule: (ms: number, work: () => void) => () => void;
}

interface Held {
  readonly term: number;
  status: Written | undefined;
  tables: Written | undefined;
}

interface Due {
  readonly held: Held;
  readonly report: NewReport;
  readonly written: Written;
}

export class ReportWriter implements StatusWatch, AsyncDisposable {
  readonly #held = new Map<string, Held>();
  /** Those that are not to wait until all are looked at. */
  readonly #changed = new Set<string>();
  #version = 0;
  /** When all were looked at. */
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  /** When any were. */
  #nowMs = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | null = null;
  #dueAtMs = Number.POSITIVE_INFINITY;
  #writing: Promise<void> | null = null;
  #isFailing = false;
  #isClosed = false;

  constructor(private readonly context: ReportWriterContext) {}

  /** This replica holds the connector from now on. */
  gained(connectorId: string, term: number): void {
    this.#held.set(connectorId, { term, status: undefined, tables: undefined });
    this.#lookSoon(connectorId);
  }

  /**
   * It no longer does: nothing more is written of it. The status board's `released` does not count: the earlier run may end when this
   * replica holds the connector again.
   */
  lost(connectorId: string): void {
    this.#held.delete(connectorId);
    this.#changed.delete(connectorId);
  }

  reported(connectorId: string): void {
    if (this.#held.has(connectorId)) this.#lookSoon(connectorId);
  }

  setAside(connectorId: string): void {
    this.reported(connectorId);
  }

  /** The state's server may have lost all reports. */
  writeAllAgain(): void {
    // In the place of what a statement that is under way would mark as written.
    for (const [id, { term }] of [...this.#held]) this.gained(id, term);
  }

  /** Resolves when no statement is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#writing;
  }

  /** Changes come in groups: the first is written at once, and the rest a little later. */
  #lookSoon(connectorId: string): void {
    this.#changed.add(connectorId);
    this.#lookAt(this.#nowMs + changeMs);
  }

  #lookAt(atMs: number): void {
    // The end of a statement that is under way brings the next look.
    if (this.#isClosed || this.#writing || atMs >= this.#dueAtMs) return;
    this.#cancel?.();
    this.#dueAtMs = atMs;
    this.#cancel = this.context.schedule(Math.max(0, atMs - this.context.monotonicMs()), () => this.#look());
  }

  #look(): void {
    this.#cancel = null;
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    this.#nowMs = this.context.monotonicMs();
    const isOfAll = this.#nowMs >= this.#lookedAtMs + writeMs;
    if (isOfAll) this.#lookedAtMs = this.#nowMs;
    const ids = [...(isOfAll ? this.#held.keys() : this.#changed)];
    this.#changed.clear();
    this.#writing = this.#write(this.#due(ids)).finally(() => {
      this.#writing = null;
      if (this.#changed.size > 0) this.#lookAt(this.#nowMs + changeMs);
      if (this.#held.size > 0) this.#lookAt(this.#lookedAtMs + writeMs);
    });
  }

  async #write(due: readonly Due[]): Promise<void> {
    if (due.length === 0) return;
    try {
      await this.context.store.save(
        this.context.holder,
        due.map(({ report }) => report),
      );
      this.#isFailing = false;
      // Of one that was lost meanwhile, and gained again, nothing counts as written.
      for (const { held, report, written } of due) held[report.kind] = written;
    } catch (error) {
      // Others show the last reports meanwhile.
      if (!this.#isFailing) this.context.log.warn({ error }, "reports on connectors wait for the state");
      this.#isFailing = true;
    }
  }

  #due(ids: readonly string[]): Due[] {
    if (!this.context.hasOthers()) return [];
    this.#version += 1;
    return ids.flatMap((id) => {
      const held = this.#held.get(id);
      if (!held || !this.context.holds(id)) return [];
      const report = this.context.report(id);
      if (!report) return [];
      const due = [this.#dueStatus(id, held, report), this.#dueTables(id, held, report.run_id)];
      return due.filter((one) => one !== null);
    });
  }

  #dueStatus(id: string, held: Held, report: RunReport): Due | null {
    const body = JSON.stringify(report);
    const now = { id, term: held.term, content: body, nowMs: this.#nowMs };
    return isStatusDue(held.status, now) ? this.#toWrite(id, held, "status", body, body) : null;
  }

  #dueTables(id: string, held: Held, runId: string): Due | null {
    const revision = this.context.tables.revision(id);
    if (revision === null) return null;
    // Another run has counted nothing yet.
    const content = `${runId} ${revision}`;
    const now = { id, term: held.term, content, nowMs: this.#nowMs };
    if (!areTablesDue(held.tables, now)) return null;
    return this.#toWrite(id, held, "tables", content, JSON.stringify(this.context.tables.list(id, runId)));
  }

  #toWrite(connectorId: string, held: Held, kind: NewReport["kind"], content: string, body: string): Due {
    const { term } = held;
    const written: Written = { term, content, atMs: this.#nowMs, length: body.length };
    return { held, report: { connectorId, term, kind, version: this.#version, body }, written };
  }
}
