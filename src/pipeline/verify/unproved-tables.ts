// Tables that are still to be compared with the source, because their copies have missed changes when the slot was lost. Says how far that is.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunHealth } from "../run-health.ts";
import type { TableStates } from "../table-states.ts";

interface Tellers {
  readonly meter: Pick<ProgressMeter, "resuming">;
  readonly states: Pick<TableStates, "comparing" | "proved">;
  readonly reporter: Pick<RunHealth, "warn">;
}

export class UnprovedTables {
  #tables: readonly TableShape[] = [];
  /** How many tables the connector has. */
  #all = 0;
  /** OID of the table that is being compared. */
  #current: number | null = null;

  constructor(private readonly tellers: Tellers) {}

  get tables(): readonly TableShape[] {
    return this.#tables;
  }

  /** What `sink.prepare` was given and has said. */
  prepared(tables: readonly TableShape[], unproved: ReadonlySet<number>): void {
    const before = this.#tables.length;
    this.#all = tables.length;
    this.#tables = tables.filter(({ relation }) => unproved.has(relation.id));
    if (before > 0 || this.#tables.length > 0) this.#tell(0);
  }

  /** The sink has recorded it. */
  proved(table: TableShape): void {
    this.#tables = this.#tables.filter(({ relation }) => relation.id !== table.relation.id);
    this.tellers.states.proved(table);
  }

  /** So many rows of the table have been looked at. */
  comparing(table: TableShape, rows: number): void {
    this.tellers.states.comparing(table, rows);
    this.#current = table.relation.id;
    this.#tell(rows);
  }

  /** The comparison has ended. `failure`: why it is tried again later. */
  ended(table: TableShape, failure: string | null): void {
    this.tellers.states.comparing(table, null, failure);
    this.#current = null;
    this.#tell(0);
  }

  #tell(rows: number): void {
    const { meter, reporter } = this.tellers;
    const current = this.#tables.find(({ relation }) => relation.id === this.#current);
    const [left, tables] = [this.#tables.length, this.#all];
    const name = current ? qualifiedName(current.relation) : null;
    const figures = { table: name, rows, estimatedRows: Math.max(rows, current?.estimatedRows ?? 0) };
    meter.resuming(left === 0 ? null : { tables, tablesDone: tables - left, ...figures });
    reporter.warn("resume", left === 0 ? null : describe(left, tables, name));
  }
}

function describe(left: number, tables: number, current: string | null): string {
  const now = current === null ? "" : ` Now ${current}.`;
  return (
    `The slot was lost, and changes were missed: ${left} of ${tables} tables are still to be compared with the source, and may have rows ` +
    `that are out of date until then.${now}`
  );
}
