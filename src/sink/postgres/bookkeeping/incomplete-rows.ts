// Rows that no range of a table's copy has: they moved from a range that was still to be copied into one that was done. If the stream brings
// only some values of such a row, its key is recorded in the same transaction, until the row is copied by key.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { TableShape } from "../../../change/relation.ts";
import type { IncompleteRows as RowsToCopy } from "../../sink.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import { equalSql } from "../schema/target-table.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import { RowsAhead } from "./rows-ahead.ts";

/** How many rows of a table are asked for at once. */
const maxKeys = 10_000;

export class IncompleteRows {
  /** OIDs of tables that have such rows. */
  readonly #tables = new Set<number>();
  /** OIDs of tables whose rows were reported as due. */
  readonly #reported = new Set<number>();

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
    this.#reported.clear();
    this.ahead.forget();
  }

  /** Whether the table has incomplete rows. */
  has(tableId: number): boolean {
    return this.#tables.has(tableId);
  }

  /** Rows of the table were recorded in the open transaction. */
  recorded(tableId: number): void {
    if (this.#tables.has(tableId)) return;
    this.#tables.add(tableId);
    this.undo.changed(() => this.#tables.delete(tableId));
  }

  /** Records the keys of those staged rows that `condition` selects and the target lacks. They are not inserted, as values are missing. */
  recordSql(table: PreparedTable, condition: string): string {
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

  /** Whether incomplete rows have become due since the last call. `at`: the stream's position. */
  takeDue(at: Lsn): boolean {
    if (this.#tables.size === 0) return false;
    const due = [...this.#tables].filter((id) => !this.#reported.has(id) && this.#isDue(id, at));
    for (const id of due) this.#reported.add(id);
    return due.length > 0;
  }

  /** The LSN at which all incomplete rows are due; null: the stream has passed it. */
  awaited(at: Lsn): Lsn | null {
    let awaited: Lsn | null = null;
    for (const id of this.#tables) {
      const point = this.ledger.pointOf(id);
      if (point !== null && point > (awaited ?? at)) awaited = point;
    }
    return awaited;
  }

  /** The rows to copy now, before the stream goes on. Rows of tables that are not among `tables` are reported again later. */
  async due(client: Client, tables: readonly TableShape[], at: Lsn): Promise<readonly RowsToCopy[]> {
    for (const id of this.#reported)
      if (!tables.some(({ relation }) => relation.id === id)) this.#reported.delete(id);
    const incomplete: RowsToCopy[] = [];
    for (const table of tables) {
      const { id } = table.relation;
      if (!this.has(id) || !this.#isDue(id, at)) continue;
      const { rows } = await client.query<{ key: RowKey }>(
        "select row_key as key from millrace.owed_row where connector_id = $1 and table_id = $2 limit $3",
        [this.connectorId, id, maxKeys],
      );
      incomplete.push({ table, keys: rows.map(({ key }) => key) });
    }
    return incomplete;
  }

  /** Rows of the table were copied, durably. `isAll`: none is incomplete any longer. */
  copied(tableId: number, isAll: boolean): void {
    this.#reported.delete(tableId);
    if (isAll) this.#tables.delete(tableId);
  }

  #isDue(tableId: number, at: Lsn): boolean {
    const point = this.ledger.pointOf(tableId);
    return point !== null && at >= point;
  }
}

/** In the transaction that copies these rows, or the whole table (null). Returns whether none is incomplete any longer. */
export async function deleteIncomplete(
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
