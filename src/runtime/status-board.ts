// What each connector is doing now, and the record of what it did. Deciding a status is left to whoever reports it.

import type {
  ConnectorStatus,
  HistoryComponent,
  RunProgress,
  SetAsideTable,
  Status,
} from "../connector/status.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import type { HistoryStore } from "../state/history-store.ts";
import type { RunMetrics } from "./messages.ts";

interface Entry {
  runId: string;
  status: Status;
  metrics: RunMetrics | null;
  lastError: NonNullable<ConnectorStatus["last_error"]> | null;
  /** The failure that is being retried, while it is: seen through several phases, it is one piece of news. */
  retry: string | null;
  setAside: readonly SetAsideTable[];
  /** When everything is copied again; null: it is not known, or under way. */
  nextSnapshotAt: Date | null;
  /** By component: what its last record says, so that only news is kept. */
  readonly recorded: Map<HistoryComponent, string>;
}

/** Who else wants to know what runs measure. */
export interface MeasurementListener {
  measured(connectorId: string, metrics: RunMetrics): void;
  forget(connectorId: string): void;
}

export class StatusBoard {
  /** Set once, by whoever wires the service. */
  listener: MeasurementListener | null = null;
  readonly #entries = new Map<string, Entry>();
  readonly #history: HistoryStore;
  readonly #log: Log;
  readonly #now: () => Date;
  #writing: Promise<void> = Promise.resolve();

  constructor(history: HistoryStore, log: Log, now: () => Date) {
    this.#history = history;
    this.#log = log;
    this.#now = now;
  }

  /**
   * A run is to begin: what the last one counted and met is over. What is still heard of that one goes to the history
   * only. The second call for a run changes nothing.
   */
  begin(connectorId: string, runId: string): void {
    const entry = this.#entry(connectorId, runId);
    if (entry.runId === runId && entry.recorded.size > 0) return;
    entry.runId = runId;
    entry.metrics = null;
    entry.lastError = null;
    entry.recorded.clear();
    this.report(connectorId, runId, "Connector", starting);
  }

  /** The status from now on; recorded in the history when it says something new. */
  report(connectorId: string, runId: string, component: HistoryComponent, status: Status): void {
    const entry = this.#entry(connectorId, runId);
    const isCurrent = entry.runId === runId;
    const text = JSON.stringify(status);
    if (isCurrent) {
      entry.status = status;
      if (!status.state.scheduled) entry.nextSnapshotAt = null;
      const retry = status.status.retry ? JSON.stringify(status.status.retry) : null;
      const isKnown = entry.recorded.get(component) === text || (retry !== null && retry === entry.retry);
      entry.retry = retry;
      if (isKnown) return;
      entry.recorded.set(component, text);
    }
    this.#logStatus(connectorId, component, status);
    const record = { connectorId, runId, component, status, createdAt: this.#now() };
    this.#writing = this.#writing
      .then(() => this.#history.append(record))
      .catch((error: unknown) =>
        this.#log.error({ connector: connectorId, error }, "a status record was lost"),
      );
  }

  /** The same phase, another health. */
  reportHealth(
    connectorId: string,
    runId: string,
    component: HistoryComponent,
    health: Status["status"],
  ): void {
    const { state } = this.#entry(connectorId, runId).status;
    this.report(connectorId, runId, component, { state, status: health });
  }

  measured(connectorId: string, runId: string, metrics: RunMetrics): void {
    const entry = this.#entries.get(connectorId);
    if (!entry) return;
    if (entry.runId === runId) entry.metrics = metrics;
    this.listener?.measured(connectorId, metrics);
  }

  failed(connectorId: string, runId: string, error: MillraceError): void {
    const entry = this.#entries.get(connectorId);
    if (entry?.runId === runId)
      entry.lastError = { code: error.code, reason: error.message, at: this.#now().toISOString() };
  }

  /** All the tables that are set aside now. They stay so while the connector is stopped. */
  setAside(connectorId: string, runId: string, tables: readonly SetAsideTable[]): void {
    const entry = this.#entries.get(connectorId);
    if (entry?.runId === runId) entry.setAside = tables;
  }

  /** When a connector on a schedule copies everything again. */
  nextSnapshot(connectorId: string, runId: string, at: Date | null): void {
    const entry = this.#entries.get(connectorId);
    if (entry?.runId === runId) entry.nextSnapshotAt = at;
  }

  /** How many tables of each connector are set aside. */
  countSetAside(): ReadonlyMap<string, number> {
    return new Map([...this.#entries].map(([id, { setAside }]) => [id, setAside.length]));
  }

  status(connectorId: string): ConnectorStatus {
    const entry = this.#entries.get(connectorId);
    if (!entry) return starting;
    return {
      ...entry.status,
      ...(entry.metrics ? { progress: toProgress(entry.metrics) } : {}),
      ...(entry.lastError ? { last_error: entry.lastError } : {}),
      ...(entry.nextSnapshotAt ? { next_snapshot_at: entry.nextSnapshotAt.toISOString() } : {}),
      ...(entry.setAside.length > 0 ? { tables_set_aside: [...entry.setAside] } : {}),
    };
  }

  /** The last measurement of each connector that has one. */
  metrics(): ReadonlyMap<string, RunMetrics> {
    const measured = new Map<string, RunMetrics>();
    for (const [id, entry] of this.#entries) if (entry.metrics) measured.set(id, entry.metrics);
    return measured;
  }

  /** Tables that runs copy now for the first time, or again as a whole, and those that wait for their turn, over all connectors. */
  copyLoad(): { readonly running: number; readonly waiting: number } {
    let [running, waiting] = [0, 0];
    for (const { status, metrics } of this.#entries.values()) {
      if (!isCopying(status)) continue;
      const { tables, tablesDone, copying } = metrics?.snapshot ?? { tables: 0, tablesDone: 0, copying: 0 };
      // What is measured comes a little behind what is reported: a table has begun.
      const now = status.status.start ? Math.max(1, copying) : copying;
      running += now;
      waiting += Math.max(0, tables - tablesDone - now);
    }
    return { running, waiting };
  }

  /** How many connectors there are in each phase and health. */
  countByStatus(): { readonly state: string; readonly health: string; readonly count: number }[] {
    const counts = new Map<string, number>();
    for (const { status } of this.#entries.values()) {
      const key = `${Object.keys(status.state)[0]} ${Object.keys(status.status)[0]}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return [...counts].map(([key, count]) => {
      const [state = "", health = ""] = key.split(" ");
      return { state, health, count };
    });
  }

  forget(connectorId: string): void {
    this.#entries.delete(connectorId);
    this.listener?.forget(connectorId);
  }

  /** Resolves when every record so far is stored. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  #entry(connectorId: string, runId: string): Entry {
    const existing = this.#entries.get(connectorId);
    if (existing) return existing;
    const entry: Entry = {
      runId,
      status: starting,
      metrics: null,
      lastError: null,
      retry: null,
      setAside: [],
      nextSnapshotAt: null,
      recorded: new Map(),
    };
    this.#entries.set(connectorId, entry);
    return entry;
  }

  #logStatus(connector: string, component: HistoryComponent, { state, status }: Status): void {
    const [phase] = Object.keys(state);
    const [health] = Object.keys(status);
    const name = state.snapshot?.name ?? state.realtime?.name ?? state.initialize?.sub_state;
    const told = { connector, component, state: phase, ...(name === undefined ? {} : { name }), health };
    const fields = { ...told, ...status.retry, ...status.warning, ...status.skipped, ...status.failed };
    if (status.failed) this.#log.error(fields, "connector failed");
    else if (status.retry || status.warning) this.#log.warn(fields, "connector needs attention");
    else this.#log.info(fields, "connector status");
  }
}

function isCopying({ state, status }: Status): boolean {
  return state.snapshot !== undefined && !status.failed && !status.retry;
}

const starting: Status = { state: { start: {} }, status: { start: {} } };

function toProgress(metrics: RunMetrics): RunProgress {
  const { snapshot } = metrics;
  return {
    rows_in: metrics.rowsIn,
    rows_durable: metrics.rowsDurable,
    bytes_durable: metrics.bytesDurable,
    requests: metrics.requests,
    snapshot: {
      tables: snapshot.tables,
      tables_done: snapshot.tablesDone,
      rows: snapshot.rows,
      bytes: snapshot.bytes,
      estimated_rows: snapshot.estimatedRows,
    },
    lag_bytes: metrics.lagBytes,
    latency_ms: metrics.latencyMs,
    resume_lsn: metrics.resumeLsn,
  };
}
