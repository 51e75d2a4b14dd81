// Records copies that have begun, in the target database: what each depends on, and which of its ranges are done. The records outlive the
// run, so that done ranges are not copied again.

import type { Client } from "pg";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { madeTables } from "../copy/helper-tables.ts";

export interface CopiedRange extends PageRange {
  readonly point: Lsn;
  readonly rows: number;
}

/** `side`: the ranges are in a side table until all are there. `incremental`: they are in the target, and the stream keeps them up to date. */
export type RecordKind = "side" | "incremental";

export interface CopyRecord {
  readonly tableId: number;
  readonly kind: RecordKind;
  /** What the copy depends on: its ranges are valid only while this is the same. */
  readonly fingerprint: string;
  readonly ranges: readonly CopiedRange[];
}

interface RangeRow {
  readonly table_id: number;
  readonly is_beside: boolean;
  readonly mark: string;
  readonly first_page: number | null;
  readonly next_page: number | null;
  readonly point: string;
  readonly rows: number;
}

const rangesQuery = `
select d.table_id::float8, d.is_beside, d.mark, r.first_page::float8, r.next_page::float8, r.point_lsn::text as point, r.row_count::float8 as rows
from millrace.divided_copy d left join millrace.copied_range r using (connector_id, table_id)
where d.connector_id = $1 and ($2::int8 is null or d.table_id = $2) order by r.first_page`;

export class CopyRecords {
  readonly #byTable = new Map<number, CopyRecord>();

  constructor(private readonly connectorId: string) {}

  async load(client: Client): Promise<void> {
    this.#byTable.clear();
    await this.#read(client, null);
  }

  /** What is recorded of one table: a COMMIT may have been made though its reply was lost. */
  async reload(client: Client, tableId: number): Promise<void> {
    this.#byTable.delete(tableId);
    await this.#read(client, tableId);
  }

  async #read(client: Client, only: number | null): Promise<void> {
    const { rows } = await client.query<RangeRow>(rangesQuery, [this.connectorId, only]);
    for (const row of rows) {
      const { table_id: tableId, is_beside, mark, first_page: from, next_page: to, point, rows: count } = row;
      const ranges = this.#byTable.get(tableId)?.ranges ?? [];
      const range = from === null ? [] : [{ from, to, point: parseLsn(point), rows: count }];
      const kind = is_beside ? "incremental" : "side";
      this.#byTable.set(tableId, { tableId, kind, fingerprint: mark, ranges: [...ranges, ...range] });
    }
  }

  of(tableId: number, kind: RecordKind): CopyRecord | null {
    const record = this.#byTable.get(tableId);
    return record?.kind === kind ? record : null;
  }

  has(tableId: number): boolean {
    return this.#byTable.has(tableId);
  }

  all(kind: RecordKind): readonly CopyRecord[] {
    return [...this.#byTable.values()].filter((record) => record.kind === kind);
  }

  /** The beginning is durable. */
  begun(tableId: number, kind: RecordKind, fingerprint: string): void {
    this.#byTable.set(tableId, { tableId, kind, fingerprint, ranges: [] });
  }

  /** The range is durable. */
  added(tableId: number, range: CopiedRange): void {
    const record = this.#byTable.get(tableId);
    if (record) this.#byTable.set(tableId, { ...record, ranges: [...record.ranges, range] });
  }

  /** The record was deleted. */
  ended(tableId: number): void {
    this.#byTable.delete(tableId);
  }

  /**
   * Drops side tables whose source tables have changed, or whose points the stream has passed: changes after such a point were not applied.
   * `since`: changes committed before it are durable. In no transaction.
   */
  async dropStaleSides(client: Client, tables: readonly TableShape[], since: Lsn): Promise<void> {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    const isValid = ({ tableId, fingerprint, ranges }: CopyRecord) => {
      const table = byId.get(tableId);
      if (!table || table.coverage?.isUnpublished === true) return false;
      return fingerprint === sideFingerprint(table) && ranges.every(({ point }) => point >= since);
    };
    for (const record of this.all("side")) if (!isValid(record)) await this.drop(client, record.tableId);
  }

  /** Durable on return. In no transaction. */
  async drop(client: Client, tableId: number): Promise<void> {
    await client.query("begin");
    await dropCopy(client, this.connectorId, tableId);
    await client.query("commit");
    this.ended(tableId);
  }

  /** Durable on return. In no transaction. */
  async dropAll(client: Client): Promise<void> {
    for (const tableId of [...this.#byTable.keys()]) await this.drop(client, tableId);
  }

  /** Drops what copies have made that no record names any more: a copy that ends drops its tables behind its record. In no transaction. */
  async dropUnrecorded(client: Client): Promise<void> {
    const made = await madeTables(client, this.connectorId);
    for (const tableId of new Set(made.map(({ tableId }) => tableId)))
      if (!this.has(tableId)) await this.drop(client, tableId);
  }
}

/** In the open transaction. */
export async function recordBegun(
  client: Client,
  connectorId: string,
  { tableId, kind, fingerprint }: Omit<CopyRecord, "ranges">,
): Promise<void> {
  const sql =
    "insert into millrace.divided_copy (connector_id, table_id, mark, is_beside) values ($1, $2, $3, $4)";
  await client.query(sql, [connectorId, tableId, fingerprint, kind === "incremental"]);
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

/** In the open transaction: deletes the record of the table's copy. */
export async function forgetCopy(client: Client, connectorId: string, tableId: number): Promise<void> {
  for (const table of ["copied_range", "divided_copy"]) {
    await client.query(`delete from millrace.${table} where connector_id = $1 and table_id = $2`, [
      connectorId,
      tableId,
    ]);
  }
}

/** As `forgetCopy`, and drops the tables that the copy has made. The side table may be the target by now. */
export async function dropCopy(client: Client, connectorId: string, tableId: number): Promise<void> {
  await forgetCopy(client, connectorId, tableId);
  const made = (await madeTables(client, connectorId)).filter((table) => table.tableId === tableId);
  if (made.length > 0)
    await client.query(`drop table if exists ${made.map(({ name }) => sqlName(name)).join(", ")}`);
}

/** Side tables that earlier versions began lack the privileges of their target's schema. */
const sideFormat = 2;

/** What the ranges in a side table are a copy of. */
export function sideFingerprint(table: TableShape): string {
  return `${sideFormat} ${chunkedCopyFingerprint(table)}`;
}
