// Decides which alerts are due for one connector. It compares what is with what was told, so that a change that came
// while no alert of its kind was allowed is told later if it still holds, and the last alert is never a wrong one.
// Pure: the time is an argument.

import type { SetAsideTable, Status } from "../connector/status.ts";
import {
  type Alert,
  type AlertType,
  type DifferingTable,
  differencesAlert,
  type FailedTask,
  failedAlert,
  logAlert,
  type ParkedCount,
  parkedAlert,
  recoveredAlert,
  retryingAlert,
  type SlotDanger,
  tablesAlert,
  tasksAlert,
  windowMs,
} from "./alert.ts";

/** A connector that retries is told of after this time: most troubles are over by then. */
export const retryingMs = 5 * 60_000;
/**
 * A connector is well when it has been so for this long. A run that fails at its first write streams for a moment, and
 * a sink that flaps takes a request now and then.
 */
export const settledMs = 10_000;
/**
 * A run flaps when so many of its attempts have worked for that long and failed, within `windowMs`. Each of these troubles is short,
 * but together they are one: maybe no attempt gets further than the one before.
 */
const mostFailures = 5;
/** Failed tasks that wait to be told. */
const maxTasks = 1_000;

type Trouble =
  | { readonly kind: "failed"; readonly sinceMs: number; readonly reason: string }
  | {
      readonly kind: "retrying";
      readonly sinceMs: number;
      readonly retry: { readonly attempt: number; readonly reason: string };
    };

export class ConnectorAlerts {
  #state: Status["state"] = { start: {} };
  /** The last trouble, until it is over. */
  #trouble: Trouble | null = null;
  #isTroubleTold = false;
  /** The trouble is what the connector reported last. */
  #isPresent = false;
  /** Since when the connector works, though the trouble may come back; null: it does not. */
  #wellSinceMs: number | null = null;
  /** When attempts failed that had worked for a while. */
  #failuresMs: readonly number[] = [];
  /** What people know: the last trouble that they were told of and that nobody called off; null: all is well. */
  #believed: Trouble["kind"] | null = null;
  #danger: { readonly sinceMs: number; readonly slot: SlotDanger } | null = null;
  #isDangerTold = false;
  #setAside: readonly SetAsideTable[] = [];
  #setAsideSinceMs = 0;
  readonly #toldTables = new Set<string>();
  #tasks: FailedTask[] = [];
  #firstTaskMs = 0;
  #differing: DifferingTable[] = [];
  #firstDifferingMs = 0;
  /** By table, those that wait to be told. */
  readonly #parked = new Map<string, ParkedCount>();
  #firstParkedMs = 0;
  readonly #sentMs = new Map<AlertType, number>();

  constructor(private readonly id: string) {}

  reported({ state, status }: Status, nowMs: number): void {
    const { failed, retry } = status;
    this.#state = state;
    if (failed) {
      this.#failuresMs = [];
      this.#begin({ kind: "failed", sinceMs: nowMs, reason: failed.reason }, !this.#isPresent);
    } else if (retry) {
      const sinceMs = this.#flaps(nowMs) ? Math.min(...this.#failuresMs) : nowMs;
      this.#begin({ kind: "retrying", sinceMs, retry }, this.#isSettled(nowMs));
    } else if (state.realtime || state.snapshot || state.scheduled || state.complete) {
      this.#isPresent = false;
      this.#wellSinceMs ??= nowMs;
    } else this.#leave();
  }

  /** Call it before what follows from it is reported. */
  attemptFailed(nowMs: number): void {
    if (this.#isCalm(nowMs)) this.#failuresMs = [...this.#recentFailures(nowMs), nowMs];
  }

  slot(slot: SlotDanger, nowMs: number): void {
    if (slot.warning === null) {
      this.#danger = null;
      this.#isDangerTold = false;
    } else this.#danger = { sinceMs: this.#danger?.sinceMs ?? nowMs, slot };
  }

  setAside(tables: readonly SetAsideTable[], nowMs: number): void {
    const names = new Set(tables.map(keyOf));
    for (const told of this.#toldTables) if (!names.has(told)) this.#toldTables.delete(told);
    this.#setAside = tables;
    if (this.#untoldTables().length > 0) this.#setAsideSinceMs = nowMs;
  }

  taskFailed(task: FailedTask, nowMs: number): void {
    if (this.#tasks.length === 0) this.#firstTaskMs = nowMs;
    if (this.#tasks.length < maxTasks) this.#tasks.push(task);
  }

  differs(table: DifferingTable, nowMs: number): void {
    if (this.#differing.length === 0) this.#firstDifferingMs = nowMs;
    if (this.#differing.length < maxTasks) this.#differing.push(table);
  }

  /** Messages of a table were parked. */
  parked({ schema, name, messages }: ParkedCount, nowMs: number): void {
    if (this.#parked.size === 0) this.#firstParkedMs = nowMs;
    const key = keyOf({ schema, name });
    const before = this.#parked.get(key)?.messages ?? 0;
    this.#parked.set(key, { schema, name, messages: before + messages });
  }

  /** The alerts that are due. They count as told. */
  due(nowMs: number): Alert[] {
    this.#notAfter(nowMs);
    const alerts = [
      this.#ofTrouble(nowMs),
      this.#ofRecovery(nowMs),
      this.#ofLog(nowMs),
      this.#ofTables(nowMs),
      this.#mayTell("task.failed", nowMs) ? this.#takeTasks() : null,
      this.#mayTell("verify.differs", nowMs) ? this.#takeDifferences() : null,
      this.#mayTell("message.parked", nowMs) ? this.#takeParked() : null,
    ].filter((alert) => alert !== null);
    for (const { type } of alerts) this.#sentMs.set(type, nowMs);
    return alerts;
  }

  /** What waits for its turn and has happened once, so that who holds the connector next cannot tell of it. It counts as told. */
  untold(): Alert[] {
    return [this.#takeTasks(), this.#takeDifferences(), this.#takeParked()].filter((alert) => alert !== null);
  }

  /** Where the clock was set back, what had begun by it begins now: nothing waits until the clock is there again. */
  #notAfter(nowMs: number): void {
    if (this.#wellSinceMs !== null) this.#wellSinceMs = Math.min(this.#wellSinceMs, nowMs);
    if (this.#trouble) this.#trouble = { ...this.#trouble, sinceMs: Math.min(this.#trouble.sinceMs, nowMs) };
  }

  /** `isAnother`: it is no continuation of one of its kind. Each failure is a change; retries go on through short calms. */
  #begin(trouble: Trouble, isAnother: boolean): void {
    const before = this.#trouble;
    const goesOn = !isAnother && before?.kind === trouble.kind;
    if (!goesOn) this.#isTroubleTold = false;
    this.#trouble = goesOn ? { ...trouble, sinceMs: Math.min(before.sinceMs, trouble.sinceMs) } : trouble;
    this.#isPresent = true;
    this.#wellSinceMs = null;
  }

  /** A run begins, or the connector stands because somebody wants it to. */
  #leave(): void {
    this.#isPresent = false;
    this.#wellSinceMs = null;
    if (!this.#state.shutdown && !this.#state.disabled) return;
    this.#trouble = null;
    this.#failuresMs = [];
  }

  #isCalm(nowMs: number): boolean {
    return this.#wellSinceMs !== null && nowMs - this.#wellSinceMs >= settledMs;
  }

  #isSettled(nowMs: number): boolean {
    return this.#isCalm(nowMs) && !this.#flaps(nowMs);
  }

  #flaps(nowMs: number): boolean {
    return this.#recentFailures(nowMs).length >= mostFailures;
  }

  #recentFailures(nowMs: number): readonly number[] {
    return this.#failuresMs.filter((atMs) => atMs <= nowMs && nowMs - atMs < windowMs);
  }

  #ofTrouble(nowMs: number): Alert | null {
    const trouble = this.#trouble;
    if (!trouble || !this.#isPresent || this.#isTroubleTold) return null;
    const forMs = nowMs - trouble.sinceMs;
    if (trouble.kind === "retrying" && forMs < retryingMs) return null;
    if (!this.#mayTell(`connector.${trouble.kind}`, nowMs)) return null;
    this.#isTroubleTold = true;
    this.#believed = trouble.kind;
    if (trouble.kind === "failed") return failedAlert(this.id, trouble.sinceMs, this.#state, trouble.reason);
    return retryingAlert(this.id, trouble.sinceMs, this.#state, {
      ...trouble.retry,
      forMs,
      flaps: this.#flaps(nowMs),
    });
  }

  #ofRecovery(nowMs: number): Alert | null {
    if (!this.#isSettled(nowMs)) return null;
    this.#trouble = null;
    const believed = this.#believed;
    if (believed === null || !this.#mayTell("connector.recovered", nowMs)) return null;
    this.#believed = null;
    return recoveredAlert(this.id, this.#wellSinceMs ?? nowMs, this.#state, believed);
  }

  #ofLog(nowMs: number): Alert | null {
    if (!this.#danger || this.#isDangerTold || !this.#mayTell("source.log_in_danger", nowMs)) return null;
    this.#isDangerTold = true;
    return logAlert(this.id, this.#danger.sinceMs, this.#danger.slot);
  }

  #ofTables(nowMs: number): Alert | null {
    const tables = this.#untoldTables();
    if (tables.length === 0 || !this.#mayTell("table.set_aside", nowMs)) return null;
    for (const table of tables) this.#toldTables.add(keyOf(table));
    return tablesAlert(this.id, this.#setAsideSinceMs, tables);
  }

  #takeTasks(): Alert | null {
    const tasks = this.#tasks;
    if (tasks.length === 0) return null;
    this.#tasks = [];
    return tasksAlert(this.id, this.#firstTaskMs, tasks);
  }

  #takeDifferences(): Alert | null {
    const tables = this.#differing;
    if (tables.length === 0) return null;
    this.#differing = [];
    return differencesAlert(this.id, this.#firstDifferingMs, tables);
  }

  #takeParked(): Alert | null {
    if (this.#parked.size === 0) return null;
    const parked = [...this.#parked.values()];
    this.#parked.clear();
    return parkedAlert(this.id, this.#firstParkedMs, parked);
  }

  #untoldTables(): readonly SetAsideTable[] {
    return this.#setAside.filter((table) => !this.#toldTables.has(keyOf(table)));
  }

  #mayTell(type: AlertType, nowMs: number): boolean {
    const sentMs = this.#sentMs.get(type);
    // A clock that was set back must not silence anything for longer.
    return sentMs === undefined || nowMs < sentMs || nowMs - sentMs >= windowMs;
  }
}

function keyOf({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return JSON.stringify([schema, name]);
}
