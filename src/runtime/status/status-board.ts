// The current status of each connector, and the history of its statuses. Whoever reports a status decides it.

import type { CopyLoad } from "../../connector/service/run-report.ts";
import type { ConnectorStatus, HistoryComponent, SetAsideTable, Status } from "../../connector/status.ts";
import { stands } from "../../connector/status.ts";
import type { Term } from "../../connector/term.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { HistoryStore } from "../../state/stores/history-store.ts";
import { toProgress } from "../metrics/run-measurement.ts";
import type { RunMetrics } from "../threads/messages.ts";
import { copyLoadOf, noLoad } from "./copy-load.ts";
import { HistoryWriter } from "./history-writer.ts";
import { cancelDeferred, newEntry, type StatusEntry } from "./status-entry.ts";
import { logStatus, phaseOf, starting } from "./status-lines.ts";
import type { StatusWatch } from "./status-watch.ts";
import { TableBoard } from "./table-board.ts";

export type MeasuredRun = RunMetrics & { readonly runId: string; readonly lagSeconds: number | null };

export interface StatusBoardOptions {
  readonly termOf?: (connectorId: string) => Term | undefined;
  readonly throttleMs?: number;
}

export class StatusBoard implements AsyncDisposable {
  readonly #watches: StatusWatch[] = [];
  /** Where the connectors' tables stand. */
  readonly tables = new TableBoard();
  readonly #entries = new Map<string, StatusEntry>();
  readonly #history: HistoryWriter;
  readonly #throttleMs: number;
  readonly #termOf: (connectorId: string) => Term | undefined;

  /**
   * `termOf`: under which term this replica holds a connector; undefined: it does not, and nothing is recorded.
   * `throttleMs`: within it, a status that comes and goes is recorded a few times only.
   */
  constructor(
    history: HistoryStore,
    private readonly log: Log,
    private readonly now: () => Date,
    { termOf = () => null, throttleMs = 60_000 }: StatusBoardOptions = {},
  ) {
    this.#history = new HistoryWriter(history, log);
    this.#termOf = termOf;
    this.#throttleMs = throttleMs;
  }

  /** From now on the watch hears of every connector. */
  addWatch(watch: StatusWatch): void {
    this.#watches.push(watch);
  }

  /**
   * A run is about to begin: the counters and errors of the last run are dropped. Late reports of that run go to the
   * history only. A second call for the same run changes nothing.
   */
  begin(connectorId: string, runId: string): void {
    const entry = this.#entry(connectorId, runId);
    if (entry.runId === runId && entry.recorded !== null) return;
    entry.runId = runId;
    entry.measurement.runBegan();
    entry.lastError = null;
    entry.recorded = null;
    entry.throttle.clear();
    cancelDeferred(entry);
    this.report(connectorId, runId, "Connector", starting);
  }

  /** Sets the current status. Records it in the history when it says something new. `retryInMs`: when the next attempt follows. */
  report(
    connectorId: string,
    runId: string,
    component: HistoryComponent,
    status: Status,
    retryInMs?: number,
  ): void {
    const entry = this.#entry(connectorId, runId);
    if (entry.runId !== runId) {
      this.#record(connectorId, runId, component, status);
      return;
    }
    entry.status = status;
    entry.nextAttemptAt = retryInMs === undefined ? null : new Date(this.now().getTime() + retryInMs);
    if (!status.state.scheduled) entry.nextSnapshotAt = null;
    const { retry } = status.status;
    if (retry) this.#setRetryError(entry, retry.reason);
    const isSameRetry = retry !== undefined && JSON.stringify(retry) === entry.retry;
    if (!isSameRetry) entry.retry = null;
    for (const watch of this.#watches) watch.reported?.(connectorId, status);
    cancelDeferred(entry);
    const isKnown = isSameRetry || entry.recorded === JSON.stringify([component, status]);
    if (!isKnown) this.#recordNew(connectorId, entry, component, status);
  }

  /** Records the status now, or later where it is throttled. */
  #recordNew(connectorId: string, entry: StatusEntry, component: HistoryComponent, status: Status): void {
    const waitMs = entry.throttle.waitMs(component, status, this.now().getTime());
    if (waitMs > 0) {
      const again = () => this.#recordNew(connectorId, entry, component, status);
      entry.deferred = setTimeout(again, waitMs).unref();
      return;
    }
    const { retry } = status.status;
    if (retry) entry.retry = JSON.stringify(retry);
    entry.recorded = JSON.stringify([component, status]);
    this.#record(connectorId, entry.runId, component, status);
  }

  #record(
    connectorId: string,
    runId: string,
    component: HistoryComponent,
    status: Status,
    term = this.#termOf(connectorId),
  ): void {
    if (term === undefined) return;
    logStatus(this.log, { connector: connectorId, run: runId }, component, status);
    const id = Bun.randomUUIDv7();
    this.#history.add({ id, connectorId, runId, component, status, createdAt: this.now(), term });
  }

  /** Records what happened to the connector at the beginning of a run, whoever holds it. Its status stays. */
  note(connectorId: string, runId: string, reason: string): void {
    this.#record(connectorId, runId, "Connector", { ...starting, status: { warning: { reason } } }, null);
  }

  /** Sets another health within the current phase. */
  reportHealth(
    connectorId: string,
    runId: string,
    component: HistoryComponent,
    health: Status["status"],
    retryInMs?: number,
  ): void {
    const { state } = this.#entry(connectorId, runId).status;
    this.report(connectorId, runId, component, { state, status: health }, retryInMs);
  }

  /** The run starts an attempt. */
  attempted(connectorId: string): void {
    this.#entries.get(connectorId)?.measurement.attemptBegan();
    for (const watch of this.#watches) watch.began?.(connectorId);
  }

  /** The run's attempt has ended: nothing streams until the next one. */
  attemptEnded(connectorId: string): void {
    this.#entries.get(connectorId)?.measurement.attemptEnded();
  }

  measured(connectorId: string, runId: string, metrics: RunMetrics): void {
    const entry = this.#entries.get(connectorId);
    if (!entry) return;
    if (entry.runId === runId) {
      entry.measurement.measured(metrics);
      if (metrics.slot) this.measuredSlot(connectorId, metrics.slot);
    }
    for (const watch of this.#watches) watch.measured?.(connectorId, metrics);
  }

  /** What the source keeps of its log for the connector, whether it runs or not. */
  measuredSlot(connectorId: string, slot: NonNullable<RunMetrics["slot"]>): void {
    for (const watch of this.#watches) watch.measuredSlot?.(connectorId, slot);
  }

  failed(connectorId: string, runId: string, error: MillraceError): void {
    for (const watch of this.#watches) watch.failed?.(connectorId, error.code);
    const entry = this.#entries.get(connectorId);
    if (entry?.runId === runId)
      entry.lastError = { code: error.code, reason: error.message, at: this.now().toISOString() };
  }

  /** Sets all tables that are currently set aside. They stay so while the connector is stopped. */
  setAside(connectorId: string, runId: string, tables: readonly SetAsideTable[]): void {
    const entry = this.#entries.get(connectorId);
    if (entry?.runId !== runId) return;
    entry.setAside = tables;
    for (const watch of this.#watches) watch.setAside?.(connectorId, tables);
  }

  /** When a connector on a schedule begins its next round. */
  nextSnapshot(connectorId: string, runId: string, at: Date | null): void {
    const entry = this.#entries.get(connectorId);
    if (entry?.runId === runId) entry.nextSnapshotAt = at;
  }

  /** The number of tables that are set aside, by connector. */
  countSetAside(): ReadonlyMap<string, number> {
    return new Map([...this.#entries].map(([id, { setAside }]) => [id, setAside.length]));
  }

  /** The run that the present status is of; null: there is none. */
  runId(connectorId: string): string | null {
    return this.#entries.get(connectorId)?.runId ?? null;
  }

  status(connectorId: string): ConnectorStatus {
    const entry = this.#entries.get(connectorId);
    if (!entry) return starting;
    const { measurement } = entry;
    const [{ total }, now] = [measurement, this.now()];
    const next = entry.nextAttemptAt !== null && entry.nextAttemptAt > now ? entry.nextAttemptAt : null;
    return {
      ...entry.status,
      ...(total ? { progress: toProgress(total, measurement.lagSeconds(now.getTime())) } : {}),
      ...(entry.lastError ? { last_error: entry.lastError } : {}),
      ...(next ? { next_attempt_at: next.toISOString() } : {}),
      ...(entry.nextSnapshotAt ? { next_snapshot_at: entry.nextSnapshotAt.toISOString() } : {}),
      ...(entry.setAside.length > 0 ? { tables_set_aside: [...entry.setAside] } : {}),
    };
  }

  /** The measurements and the lag in seconds of each connector that has any. */
  metrics(): ReadonlyMap<string, MeasuredRun> {
    const measured = new Map<string, MeasuredRun>();
    for (const id of this.#entries.keys()) {
      const measurement = this.measurement(id);
      if (measurement) measured.set(id, measurement);
    }
    return measured;
  }

  /** The same of one connector; null: nothing was measured yet. */
  measurement(connectorId: string): MeasuredRun | null {
    const entry = this.#entries.get(connectorId);
    const total = entry?.measurement.total;
    if (!entry || !total) return null;
    const lagSeconds = entry.measurement.lagSeconds(this.now().getTime());
    // The source's log grows while nothing runs, and nobody counts.
    const lagBytes = stands(entry.status) ? null : total.lagBytes;
    return { ...total, runId: entry.runId, lagSeconds, lagBytes };
  }

  /** Tables of the connector that are being copied, for the first time or as a whole again, and those that wait. */
  copyLoad(connectorId: string): CopyLoad {
    const entry = this.#entries.get(connectorId);
    return entry ? copyLoadOf(entry.status, entry.measurement.total?.snapshot ?? null) : noLoad;
  }

  /** The phase and the health of each connector, by connector id. */
  phases(): ReadonlyMap<string, { readonly state: string; readonly health: string }> {
    return new Map([...this.#entries].map(([id, { status }]) => [id, phaseOf(status)]));
  }

  /** The connector is deleted. */
  forget(connectorId: string): void {
    this.#drop(connectorId);
    for (const watch of this.#watches) watch.forget?.(connectorId);
  }

  /** This replica no longer holds the connector, which is still there. Call it when the run here has ended. */
  release(connectorId: string): void {
    this.#drop(connectorId);
    for (const watch of this.#watches) watch.released?.(connectorId);
  }

  #drop(connectorId: string): void {
    const entry = this.#entries.get(connectorId);
    if (entry) cancelDeferred(entry);
    this.#entries.delete(connectorId);
    this.tables.forget(connectorId);
  }

  /** Resolves when every record so far is stored. */
  async flush(): Promise<void> {
    await this.#history.flush();
  }

  /** Resolves when every record is stored. Deferred records are dropped. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const entry of this.#entries.values()) cancelDeferred(entry);
    await this.#history[Symbol.asyncDispose]();
  }

  /** A failed attempt has set its own error code already. Any other retry is one that the sink makes by itself. */
  #setRetryError(entry: StatusEntry, reason: string): void {
    if (entry.lastError?.reason === reason) return;
    entry.lastError = { code: "sink_retrying", reason, at: this.now().toISOString() };
  }

  #entry(connectorId: string, runId: string): StatusEntry {
    const existing = this.#entries.get(connectorId);
    if (existing) return existing;
    const entry = newEntry(runId, this.#throttleMs);
    this.#entries.set(connectorId, entry);
    return entry;
  }
}
