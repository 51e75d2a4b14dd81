// What each connector is doing now, and the record of what it did. Deciding a status is left to whoever reports it.

import type { ConnectorStatus, HistoryComponent, SetAsideTable, Status } from "../../connector/status.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { HistoryStore } from "../../state/stores/history-store.ts";
import { RunMeasurement, toProgress } from "../metrics/run-measurement.ts";
import type { RunMetrics } from "../threads/messages.ts";
import { HistoryWriter } from "./history-writer.ts";
import { RepeatedHealth } from "./repeated-health.ts";

interface Entry {
  runId: string;
  status: Status;
  readonly measurement: RunMeasurement;
  lastError: NonNullable<ConnectorStatus["last_error"]> | null;
  /** The failure that is being retried, while it is: seen through several phases, it is one piece of news. */
  retry: string | null;
  setAside: readonly SetAsideTable[];
  /** When everything is copied again; null: it is not known, or under way. */
  nextSnapshotAt: Date | null;
  /** By component: what its last record says, so that only news is kept. */
  readonly recorded: Map<HistoryComponent, string>;
  readonly repeated: RepeatedHealth;
  /** Until what was told too often is told once more, if nothing comes in between. */
  held: ReturnType<typeof setTimeout> | undefined;
}

/** Who else wants to know what runs measure. */
export interface MeasurementListener {
  /** An attempt of the connector's run begins: it counts from zero. */
  began(connectorId: string): void;
  measured(connectorId: string, metrics: RunMetrics): void;
  /** The attempt has ended with an error. */
  failed(connectorId: string, code: string): void;
  forget(connectorId: string): void;
}

export type MeasuredRun = RunMetrics & { readonly lagSeconds: number | null };

export class StatusBoard implements AsyncDisposable {
  /** Set once, by whoever wires the service. */
  listener: MeasurementListener | null = null;
  readonly #entries = new Map<string, Entry>();
  readonly #history: HistoryWriter;
  readonly #log: Log;
  readonly #now: () => Date;
  readonly #repeatedMs: number;

  /** `repeatedMs`: so long what comes and goes is told a few times only. */
  constructor(history: HistoryStore, log: Log, now: () => Date, repeatedMs = 60_000) {
    this.#history = new HistoryWriter(history, log);
    this.#log = log;
    this.#now = now;
    this.#repeatedMs = repeatedMs;
  }

  /**
   * A run is to begin: what the last one counted and met is over. What is still heard of that one goes to the history
   * only. The second call for a run changes nothing.
   */
  begin(connectorId: string, runId: string): void {
    const entry = this.#entry(connectorId, runId);
    if (entry.runId === runId && entry.recorded.size > 0) return;
    entry.runId = runId;
    entry.measurement.runBegan();
    entry.lastError = null;
    entry.recorded.clear();
    entry.repeated.clear();
    dropHeld(entry);
    this.report(connectorId, runId, "Connector", starting);
  }

  /** The status from now on; recorded in the history when it says something new. */
  report(connectorId: string, runId: string, component: HistoryComponent, status: Status): void {
    const entry = this.#entry(connectorId, runId);
    if (entry.runId !== runId) {
      this.#record(connectorId, runId, component, status);
      return;
    }
    entry.status = status;
    if (!status.state.scheduled) entry.nextSnapshotAt = null;
    const { retry } = status.status;
    if (retry) this.#noteRetry(entry, retry.reason);
    const isOneOfMany = retry !== undefined && JSON.stringify(retry) === entry.retry;
    if (!isOneOfMany) entry.retry = null;
    dropHeld(entry);
    const isKnown = isOneOfMany || entry.recorded.get(component) === JSON.stringify(status);
    if (!isKnown) this.#recordNews(connectorId, entry, component, status);
  }

  /** Now, or later what is told too often. */
  #recordNews(connectorId: string, entry: Entry, component: HistoryComponent, status: Status): void {
    const waitMs = entry.repeated.waitMs(component, status, this.#now().getTime());
    if (waitMs > 0) {
      const again = () => this.#recordNews(connectorId, entry, component, status);
      entry.held = setTimeout(again, waitMs).unref();
      return;
    }
    const { retry } = status.status;
    if (retry) entry.retry = JSON.stringify(retry);
    entry.recorded.set(component, JSON.stringify(status));
    this.#record(connectorId, entry.runId, component, status);
  }

  #record(connectorId: string, runId: string, component: HistoryComponent, status: Status): void {
    this.#logStatus(connectorId, runId, component, status);
    const id = Bun.randomUUIDv7();
    this.#history.add({ id, connectorId, runId, component, status, createdAt: this.#now() });
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

  /** The run makes an attempt. */
  attempted(connectorId: string): void {
    this.#entries.get(connectorId)?.measurement.attemptBegan();
    this.listener?.began(connectorId);
  }

  /** The run's attempt has ended: nothing streams until the next one. */
  attemptEnded(connectorId: string): void {
    this.#entries.get(connectorId)?.measurement.attemptEnded();
  }

  measured(connectorId: string, runId: string, metrics: RunMetrics): void {
    const entry = this.#entries.get(connectorId);
    if (!entry) return;
    if (entry.runId === runId) entry.measurement.measured(metrics);
    this.listener?.measured(connectorId, metrics);
  }

  failed(connectorId: string, runId: string, error: MillraceError): void {
    this.listener?.failed(connectorId, error.code);
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
    const { measurement } = entry;
    const { total } = measurement;
    const lag = () => measurement.lagSeconds(this.#now().getTime());
    return {
      ...entry.status,
      ...(total ? { progress: toProgress(total, lag()) } : {}),
      ...(entry.lastError ? { last_error: entry.lastError } : {}),
      ...(entry.nextSnapshotAt ? { next_snapshot_at: entry.nextSnapshotAt.toISOString() } : {}),
      ...(entry.setAside.length > 0 ? { tables_set_aside: [...entry.setAside] } : {}),
    };
  }

  /** What each connector's run has measured, of those that have, and its lag in seconds. */
  metrics(): ReadonlyMap<string, MeasuredRun> {
    const measured = new Map<string, MeasuredRun>();
    const nowMs = this.#now().getTime();
    for (const [id, { measurement }] of this.#entries) {
      const { total } = measurement;
      if (total) measured.set(id, { ...total, lagSeconds: measurement.lagSeconds(nowMs) });
    }
    return measured;
  }

  /** Tables that runs copy now for the first time, or again as a whole, and those that wait for their turn, over all connectors. */
  copyLoad(): { readonly running: number; readonly waiting: number } {
    let [running, waiting] = [0, 0];
    for (const { status, measurement } of this.#entries.values()) {
      if (!isCopying(status)) continue;
      const { tables, tablesDone, copying } = measurement.total?.snapshot ?? {
        tables: 0,
        tablesDone: 0,
        copying: 0,
      };
      // What is measured comes a little behind what is reported: a table has begun.
      const now = status.status.start ? Math.max(1, copying) : copying;
      running += now;
      waiting += Math.max(0, tables - tablesDone - now);
    }
    return { running, waiting };
  }

  /** The phase and the health of each connector, by name. */
  phases(): ReadonlyMap<string, { readonly state: string; readonly health: string }> {
    return new Map(
      [...this.#entries].map(([id, { status }]) => {
        const [state = ""] = Object.keys(status.state);
        const [health = ""] = Object.keys(status.status);
        return [id, { state, health }];
      }),
    );
  }

  forget(connectorId: string): void {
    const entry = this.#entries.get(connectorId);
    if (entry) dropHeld(entry);
    this.#entries.delete(connectorId);
    this.listener?.forget(connectorId);
  }

  /** Resolves when every record so far is stored. */
  async flush(): Promise<void> {
    await this.#history.flush();
  }

  /** Resolves when every record is stored; what is held back is not recorded any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const entry of this.#entries.values()) dropHeld(entry);
    await this.#history[Symbol.asyncDispose]();
  }

  /** A failure of an attempt is known by its code; what else is tried again, the sink tries by itself. */
  #noteRetry(entry: Entry, reason: string): void {
    if (entry.lastError?.reason === reason) return;
    entry.lastError = { code: "sink_retrying", reason, at: this.#now().toISOString() };
  }

  #entry(connectorId: string, runId: string): Entry {
    const existing = this.#entries.get(connectorId);
    if (existing) return existing;
    const entry: Entry = {
      runId,
      status: starting,
      measurement: new RunMeasurement(),
      lastError: null,
      retry: null,
      setAside: [],
      nextSnapshotAt: null,
      recorded: new Map(),
      repeated: new RepeatedHealth(this.#repeatedMs),
      held: undefined,
    };
    this.#entries.set(connectorId, entry);
    return entry;
  }

  #logStatus(connector: string, run: string, component: HistoryComponent, { state, status }: Status): void {
    const [phase] = Object.keys(state);
    const [health] = Object.keys(status);
    const name = state.snapshot?.name ?? state.realtime?.name ?? state.initialize?.sub_state;
    const told = { connector, run, component, state: phase, ...(name === undefined ? {} : { name }), health };
    const fields = { ...told, ...status.retry, ...status.warning, ...status.skipped, ...status.failed };
    if (status.failed) this.#log.error(fields, "connector failed");
    else if (status.retry || status.warning) this.#log.warn(fields, "connector needs attention");
    else this.#log.info(fields, "connector status");
  }
}

function dropHeld(entry: Entry): void {
  clearTimeout(entry.held);
  entry.held = undefined;
}

function isCopying({ state, status }: Status): boolean {
  return state.snapshot !== undefined && !status.failed && !status.retry;
}

const starting: Status = { state: { start: {} }, status: { start: {} } };
