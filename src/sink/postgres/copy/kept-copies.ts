// Copies beside the stream that were broken off, and what is kept of them for whoever takes them up, this run or the next: the ranges that
// were copied. The keys that the stream touches go on being noted, from a run's first batch on, so that the ranges stay as good as
// they were. What nobody takes up for long is dropped.

import type { Client } from "pg";
import { dividedMark } from "../../../change/divided-mark.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import {
  type BesideFacts,
  type BesideRange,
  type BesideTables,
  besideTables,
  dropBesideTables,
  forgetBesideTables,
  readBesideRanges,
} from "./beside-tables.ts";
import type { TouchedKeys, TouchedTable } from "./touched-keys.ts";

const lockWaitMs = 1_000;

export interface KeptCopy {
  readonly tables: BesideTables;
  readonly facts: BesideFacts;
  readonly touched: TouchedTable;
}

/** What a copy goes on with. */
export interface TakenUp extends KeptCopy {
  /** Its record says that it is kept. */
  readonly isKept: boolean;
  readonly ranges: readonly BesideRange[];
}

export class KeptCopies {
  /** By OID at the source, with the time since when they wait; null: they are being made. */
  readonly #copies = new Map<number, { readonly copy: KeptCopy; since: number | null }>();

  constructor(
    private readonly connectorId: string,
    private readonly touched: TouchedKeys,
    private readonly patienceMs: number,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {}

  /** What earlier runs have left: of what is good for nothing, nothing is left. Before the first batch; in no transaction. */
  async load(client: Client): Promise<void> {
    const { rows } = await client.query<{ name: string; kept: BesideFacts | null }>(
      "select name, kept from millrace.copy_beside where connector_id = $1",
      [this.connectorId],
    );
    for (const { name, kept } of rows) {
      const tables = besideTables(name);
      if (kept && (await this.#isGood(client, tables, kept))) {
        const { tableId, keyNames, sharedAs = null, shape } = kept;
        const touched = this.touched.begin({
          ...{ tableId, keyNames, sharedAs, shape },
          ...{ name, notes: tables.touched },
        });
        this.letGo({ tables, facts: kept, touched });
      } else await this.#dropTables(client, tables);
    }
  }

  /** The copy is being made: its record says by now that it is kept. */
  add(copy: KeptCopy): void {
    copy.touched.isTakenUp = true;
    this.#copies.set(copy.facts.tableId, { copy, since: null });
  }

  /** Nobody is at it any more. */
  letGo(copy: KeptCopy): void {
    copy.touched.isTakenUp = false;
    this.#copies.set(copy.facts.tableId, { copy, since: this.nowMs() });
  }

  /** It is over, and its record is no longer what a run could take up. */
  ended({ facts }: KeptCopy): void {
    this.#copies.delete(facts.tableId);
  }

  /** Between two batches, in no transaction. Null: nothing that is kept is good for a copy as of now. */
  async takeUp(client: Client, facts: BesideFacts): Promise<TakenUp | null> {
    const kept = this.#copies.get(facts.tableId);
    if (!kept || kept.since === null) return null;
    const { copy } = kept;
    if (copy.touched.spoiledBy !== null || !areSame(copy.facts, facts)) {
      await this.#drop(client, copy);
      return null;
    }
    await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
    const ranges = await readBesideRanges(client, this.connectorId, copy.tables).catch(async (error) => {
      await client.query("rollback").catch(() => {});
      throw error;
    });
    await client.query("commit");
    this.add(copy);
    return { ...copy, ranges, isKept: true };
  }

  /** Whether something waits that nobody will take up. */
  get areAnyOverdue(): boolean {
    return this.#copies.values().some(({ copy, since }) => this.#isOverdue(copy, since));
  }

  /** Between two batches, in no transaction: drops what is of no use for these tables, or waits for too long. */
  async sweep(client: Client, tables: readonly TableShape[]): Promise<void> {
    if (this.#copies.size === 0) return;
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    for (const { copy, since } of [...this.#copies.values()]) {
      const table = byId.get(copy.facts.tableId);
      const isPublished = table !== undefined && table.coverage?.isUnpublished !== true;
      const isSame = isPublished && dividedMark(table) === copy.facts.mark;
      if (since !== null && (!isSame || this.#isOverdue(copy, since))) await this.#drop(client, copy);
    }
  }

  /** Between two batches, in no transaction. */
  async dropAll(client: Client): Promise<void> {
    for (const { copy } of [...this.#copies.values()]) await this.#drop(client, copy);
  }

  #isOverdue({ touched }: KeptCopy, since: number | null): boolean {
    if (since === null) return false;
    return touched.spoiledBy !== null || this.nowMs() - since >= this.patienceMs;
  }

  /** A crash of the sink's server empties what is not logged; and tables can be dropped by hand. */
  async #isGood(client: Client, { rows, touched }: BesideTables, facts: BesideFacts): Promise<boolean> {
    if (facts.shape !== this.touched.shapeOf(facts.tableId)) return false;
    const { rowCount } = await client.query(
      "select from pg_class where oid in (to_regclass($1), to_regclass($2)) and relpersistence = 'p'",
      [sqlName(rows), sqlName(touched)],
    );
    return rowCount === 2;
  }

  async #drop(client: Client, copy: KeptCopy): Promise<void> {
    this.ended(copy);
    this.touched.end(copy.touched);
    await this.#dropTables(client, copy.tables);
  }

  /** What somebody holds, the next run drops. */
  async #dropTables(client: Client, tables: BesideTables): Promise<void> {
    try {
      await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
      await dropBesideTables(client, this.connectorId, tables);
      await client.query("commit");
    } catch (error) {
      await client.query("rollback").catch(() => {});
      if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
      await forgetBesideTables(client, this.connectorId, tables.name);
    }
  }
}

function areSame(one: BesideFacts, other: BesideFacts): boolean {
  const facts = ({ tableId, mark, stamp, target, shape, keyNames, sharedAs }: BesideFacts) =>
    JSON.stringify([tableId, mark, stamp, target, shape, keyNames, sharedAs]);
  return one.stamp !== null && facts(one) === facts(other);
}
