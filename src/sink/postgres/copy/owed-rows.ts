// Rows that no range of a table's copy has, as they moved from one that was still to be copied into one that had been, and of which
// the stream has brought a change alone and not all values: they are noted by their keys, with the transaction of the change, until
// copies of just these rows are there.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { TableShape } from "../../../change/relation.ts";
import type { OwedRows } from "../../sink.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import { equalSql } from "../schema/target-table.ts";
import { RowsAhead } from "./rows-ahead.ts";

/** That are asked for at once. */
const maxKeys = 10_000;

export class OwedRowNotes {
  /** OIDs at the source. */
  readonly #tables = new Set<number>();
  /** What is due was told of. */
  readonly #told = new Set<number>();

  readonly ahead: RowsAhead;

  constructor(
    private readonly connectorId: string,
    private readonly ledger: CopyLedger,
    private readonly undo: UndoLog,
  ) {
    this.ahead = new RowsAhead(ledger);
  }

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<{ id: number }>(
      "select distinct table_id::float8 as id from millrace.owed_row where connector_id = $1",
      [this.connectorId],
    );
    this.forget();
    for (const { id } of rows) this.#tables.add(id);
  }

  forget(): void {
    this.#tables.clear();
    this.#told.clear();
    this.ahead.forget();
  }

  /** Whether rows of the table may be missing at the sink for that reason. */
  has(tableId: number): boolean {
    return this.#tables.has(tableId);
  }

  /** Rows of the table have been noted in the open transaction. */
  noted(tableId: number): void {
    if (this.#tables.has(tableId)) return;
    this.#tables.add(tableId);
    this.undo.changed(() => this.#tables.delete(tableId));
  }

  /**
   * The statement that notes staged rows, which `condition` picks, where the table has none of their keys. They are to be inserted
   * into no table: what is staged of them is not all.
   */
  noteSql(table: PreparedTable, condition: string): string {
    const keys = table.key.map((i) => `s.c${i}::text`).join(", ");
    const match = table.key.map((i) => {
      const { name, indexed } = table.columns[i]!;
      return equalSql(indexed, `t.${escapeIdentifier(name)}`, `s.c${i}`);
    });
    return (
      `insert into millrace.owed_row (connector_id, table_id, key_hash, row_key) ` +
      `select ${escapeLiteral(this.connectorId)}, ${table.relation.id}, md5(array[${keys}]::text), array[${keys}] ` +
      `from pg_temp.${table.staging} s where ${condition} ` +
      `and not exists (select from ${table.ownRows} t where ${match.join(" and ")}) on conflict do nothing`
    );
  }

  /** Whether the stream has come far enough for rows that are owed, and nobody has been told. `at`: what it has brought; `isHeld`: of a table it is not applied yet. */
  takeDue(at: Lsn, isHeld: (tableId: number) => boolean): boolean {
    if (this.#tables.size === 0) return false;
    const due = [...this.#tables].filter((id) => !this.#told.has(id) && !isHeld(id) && this.#isDue(id, at));
    for (const id of due) this.#told.add(id);
    return due.length > 0;
  }

  /** The place that the stream has to come to before all that is owed is due; null: it is there. */
  awaited(at: Lsn): Lsn | null {
    let awaited: Lsn | null = null;
    for (const id of this.#tables) {
      const point = this.ledger.pointOf(id);
      if (point !== null && point > (awaited ?? at)) awaited = point;
    }
    return awaited;
  }

  /** See `Sink.aheadOf`. */
  aheadOf(tableId: number, at: Lsn): Lsn | null {
    const point = this.ledger.pointOf(tableId);
    if (point === null) return null;
    if (point > at) return point;
    return this.has(tableId) ? at : null;
  }

  /** What is to be copied now, before the stream goes on. Of tables that are not among `tables` it is told once more when it is due. */
  async due(client: Client, tables: readonly TableShape[], at: Lsn): Promise<readonly OwedRows[]> {
    for (const id of this.#told)
      if (!tables.some(({ relation }) => relation.id === id)) this.#told.delete(id);
    const owed: OwedRows[] = [];
    for (const table of tables) {
      const { id } = table.relation;
      if (!this.has(id) || !this.#isDue(id, at)) continue;
      const { rows } = await client.query<{ key: RowKey }>(
        "select row_key as key from millrace.owed_row where connector_id = $1 and table_id = $2 limit $3",
        [this.connectorId, id, maxKeys],
      );
      owed.push({ table, keys: rows.map(({ key }) => key) });
    }
    return owed;
  }

  /** Copies of rows of the table are durable; `isAll`: none is owed any longer. */
  brought(tableId: number, isAll: boolean): void {
    this.#told.delete(tableId);
    if (isAll) this.#tables.delete(tableId);
  }

  #isDue(tableId: number, at: Lsn): boolean {
    const point = this.ledger.pointOf(tableId);
    return point !== null && at >= point;
  }
}

/** In the open transaction, with the copy of these rows, or of the whole table (null). Returns whether none is owed any longer. */
export async function settleOwed(
  client: Client,
  connectorId: string,
  tableId: number,
  keys: readonly RowKey[] | null,
): Promise<boolean> {
  if (keys === null) {
    await client.query("delete from millrace.owed_row where connector_id = $1 and table_id = $2", [
      connectorId,
      tableId,
    ]);
    return true;
  }
  await client.query(
    "delete from millrace.owed_row o using json_array_elements($3::json) e " +
      "where o.connector_id = $1 and o.table_id = $2 and o.key_hash = md5(array(select json_array_elements_text(e))::text)",
    [connectorId, tableId, JSON.stringify(keys)],
  );
  const { rowCount } = await client.query(
    "select from millrace.owed_row where connector_id = $1 and table_id = $2 limit 1",
    [connectorId, tableId],
  );
  return rowCount === 0;
}
