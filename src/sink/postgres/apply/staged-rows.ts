// Rows that are merged by way of a staging table. They are collected in groups by what is done with them, copied there, and merged by
// statements. If the staging table has no room for a group column, the groups are copied there one after the other.

import type { TupleRef } from "../../../change/tuple.ts";
import { type CopyBody, copyBody } from "../copy-in/copy-body.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import type { MergeSession } from "./merge-session.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { copyToStagingSql, createStagingSql, inGroups } from "./staging.ts";

export class StagedRows {
  rows = 0;
  /** By group if the table is wide, otherwise all under 0. */
  readonly #bodies = new Map<number, CopyBody>();
  /** The body that is in the staging table now. */
  #staged: CopyBody | null = null;

  constructor(
    private readonly session: MergeSession,
    private readonly table: PreparedTable,
  ) {}

  /** `isPartial`: see CopyBody. */
  add(group: number, tuple: TupleRef, isPartial = false): void {
    this.rows++;
    const { isWide } = this.table;
    const at = isWide ? group : 0;
    let body = this.#bodies.get(at);
    if (!body) {
      body = copyBody(this.session.form);
      this.#bodies.set(at, body);
    }
    if (isWide) body.add(tuple, isPartial);
    else body.addGrouped(group, tuple, isPartial);
  }

  /** Runs a statement over the rows of these groups. `sqlOf` gets the condition that selects them. Returns how many target rows it touched. */
  async over(groups: readonly number[], sqlOf: (condition: string) => string): Promise<number> {
    if (!this.table.isWide) return await this.#run(this.#bodies.get(0), sqlOf(inGroups(groups)));
    let touched = 0;
    for (const group of groups) touched += await this.#run(this.#bodies.get(group), sqlOf("true"));
    return touched;
  }

  async #run(body: CopyBody | undefined, sql: string): Promise<number> {
    if (!body) return 0;
    if (this.#staged !== body) await stage(this.session, this.table, body);
    // A wide table's group may be staged again.
    if (!this.table.isWide) body.release();
    this.#staged = body;
    return (await this.session.client.query(sql)).rowCount ?? 0;
  }
}

/** Copies the body into the table's staging table, which is created or truncated first. */
export async function stage(session: MergeSession, table: PreparedTable, body: CopyBody): Promise<void> {
  const known = session.staging.get(table.staging);
  if (!known) await session.client.query(createStagingSql(table));
  else if (known.dirty) await session.client.query(`truncate pg_temp.${table.staging}`);
  session.staging.set(table.staging, { dirty: true, outlivesRollback: known?.outlivesRollback ?? false });
  await copyIn(session.client, copyToStagingSql(table, session.form), body.chunks());
}
