// Copies that are made in ranges of their tables' pages, as far as the sink holds them: records in the target database beside a side
// table for each, which takes the rows until all are there. What the records are good for is decided before the stream is asked for
// anything; making the copies is range-copy.ts's.

import type { Client } from "pg";
import { dividedMark } from "../../../change/divided-mark.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";

export interface CopiedRange extends PageRange {
  readonly point: Lsn;
  readonly rows: number;
}

export interface DividedCopy {
  readonly tableId: number;
  /** `dividedMark` of the table that is copied. */
  readonly mark: string;
  readonly ranges: readonly CopiedRange[];
}

interface RangeRow {
  readonly table_id: number;
  readonly mark: string;
  readonly first_page: number | null;
  readonly next_page: number | null;
  readonly point: string;
  readonly rows: number;
}

/** Of all tables, or of one. */
const rangesQuery = `
select d.table_id::float8, d.mark, r.first_page::float8, r.next_page::float8, r.point_lsn::text as point, r.row_count::float8 as rows
from millrace.divided_copy d left join millrace.copied_range r using (connector_id, table_id)
where d.connector_id = $1 and ($2::int8 is null or d.table_id = $2) order by r.first_page`;

export class DividedCopies {
  readonly #byTable = new Map<number, DividedCopy>();

  constructor(private readonly connectorId: string) {}

  /** Where the rows of a table lie until all are there. */
  sideTable(tableId: number): TargetName {
    return { schema: "millrace", name: `copy_${this.connectorId}_${tableId}` };
  }

  async load(client: Client): Promise<void> {
    this.#byTable.clear();
    await this.#read(client, null);
  }

  /** What is there of one table: a COMMIT may have been made without a reply. */
  async reload(client: Client, tableId: number): Promise<void> {
    this.#byTable.delete(tableId);
    await this.#read(client, tableId);
  }

  async #read(client: Client, only: number | null): Promise<void> {
    const { rows } = await client.query<RangeRow>(rangesQuery, [this.connectorId, only]);
    for (const { table_id: tableId, mark, first_page: from, next_page: to, point, rows: count } of rows) {
      const ranges = this.#byTable.get(tableId)?.ranges ?? [];
      const range = from === null ? [] : [{ from, to, point: parseLsn(point), rows: count }];
      this.#byTable.set(tableId, { tableId, mark, ranges: [...ranges, ...range] });
    }
  }

  of(tableId: number): DividedCopy | null {
    return this.#byTable.get(tableId) ?? null;
  }

  /** What another session has committed. */
  begun(tableId: number, mark: string): void {
    this.#byTable.set(tableId, { tableId, mark, ranges: [] });
  }

  added(tableId: number, range: CopiedRange): void {
    const copy = this.#byTable.get(tableId);
    if (copy) this.#byTable.set(tableId, { ...copy, ranges: [...copy.ranges, range] });
  }

  ended(tableId: number): void {
    this.#byTable.delete(tableId);
  }

  /**
   * Forgets copies whose tables are not what they were when the copy began, or of which changes are missing from what the stream
   * brings from `since` on, unless `hasChanges`: these are kept. Durable on return. In no transaction.
   */
  async keep(
    client: Client,
    tables: readonly TableShape[],
    since: Lsn,
    hasChanges: (table: TableShape) => boolean,
  ): Promise<void> {
    if (this.#byTable.size === 0) return;
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    const isKept = ({ tableId, mark, ranges }: DividedCopy) => {
      const table = byId.get(tableId);
      if (!table || table.coverage?.isUnpublished === true) return false;
      const areAfter = ranges.every(({ point }) => point >= since) || hasChanges(table);
      return mark === dividedMark(table) && areAfter;
    };
    await this.drop(
      client,
      [...this.#byTable.values()].filter((copy) => !isKept(copy)),
    );
  }

  /** Durable on return. In no transaction. */
  async drop(client: Client, copies: readonly DividedCopy[] = [...this.#byTable.values()]): Promise<void> {
    for (const { tableId } of copies) {
      await client.query("begin");
      await dropDivided(client, this.connectorId, tableId, this.sideTable(tableId));
      await client.query("commit");
      this.ended(tableId);
    }
  }
}

/** In the open transaction. */
export async function recordDivided(
  client: Client,
  connectorId: string,
  tableId: number,
  mark: string,
): Promise<void> {
  const sql = "insert into millrace.divided_copy (connector_id, table_id, mark) values ($1, $2, $3)";
  await client.query(sql, [connectorId, tableId, mark]);
}

/** In the open transaction, with the range's rows. */
export async function recordRange(
  client: Client,
  connectorId: string,
  tableId: number,
  { from, to, point, rows }: CopiedRange,
): Promise<void> {
  await client.query(
    "insert into millrace.copied_range (connector_id, table_id, first_page, next_page, point_lsn, row_count) " +
      "values ($1, $2, $3, $4, $5, $6)",
    [connectorId, tableId, from, to, formatLsn(point), rows],
  );
}

/** In the open transaction. The side table may have taken the table's place. */
export async function dropDivided(
  client: Client,
  connectorId: string,
  tableId: number,
  side: TargetName,
): Promise<void> {
  for (const table of ["copied_range", "divided_copy"]) {
    await client.query(`delete from millrace.${table} where connector_id = $1 and table_id = $2`, [
      connectorId,
      tableId,
    ]);
  }
  await client.query(`drop table if exists ${sqlName(side)}`);
}
