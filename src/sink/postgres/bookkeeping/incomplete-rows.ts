// Rows of which the sink may hold only some values. The stream brought a part of a row, without the large values that did not change, and no
// chunk of the copy has it: it moved from a range that was still to be copied into one that was done, or it was touched before its chunk came.
// Its key is recorded in the same transaction, until the row is copied by key.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { keyNames, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { IncompleteRows as RowsToCopy } from "../../sink.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { TargetName } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import type { CopyLedger } from "./copy-ledger.ts";
import { isKeyExact, RowsAhead } from "./rows-ahead.ts";

/** How many rows of a table are asked for at once. */
const maxKeys = 10_000;

export class IncompleteRows {
  /** OIDs of tables that have such rows. */
  readonly #tables = new Set<number>();
  /** OIDs of tables whose rows were reported as due. */
  readonly #reported = new Set<number>();

  readonly ahead: RowsAhead;
  /** How often the stream has given rows another key without sending all of their values, by the table's OID. */
  readonly #moves = new Map<number, number>();

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

  /** A row gets another key, and not all of its values were sent. */
  moves(tableId: number): void {
    this.#moves.set(tableId, this.movesOf(tableId) + 1);
  }

  /** How often that was so. A change that was rolled back and came again counts twice. */
  movesOf(tableId: number): number {
    return this.#moves.get(tableId) ?? 0;
  }

  /** Records the keys of those staged rows that `condition` selects and the target lacks: values of them are missing. */
  recordSql(table: PreparedTable, condition: string): string {
    const keys = stagedKey(table);
    const match = table.key.map((i) => {
      const { name, indexed } = table.columns[i]!;
      return equalSql(indexed, `t.${escapeIdentifier(name)}`, `s.c${i}`);
    });
    return (
      `insert into millrace.owed_row (connector_id, table_id, key_hash, row_key, key_names) ` +
      `select ${escapeLiteral(this.connectorId)}, ${table.relation.id}, md5(array[${keys}]::text), array[${keys}], ` +
      `array[${keyNames(table.relation).map(escapeLiteral).join(", ")}] ` +
      `from pg_temp.${table.staging} s where ${condition} ` +
      `and not exists (select from ${table.ownRows} t where ${match.join(" and ")}) on conflict do nothing`
    );
  }

  /** The condition that the row under a staged key is incomplete: the target may hold it with values that are out of date. */
  isIncompleteSql(table: PreparedTable): string {
    const { relation } = table;
    if (!this.has(relation.id)) return "false";
    if (!isKeyExact(relation)) return "true";
    return (
      `exists (select from millrace.owed_row w where w.connector_id = ${escapeLiteral(this.connectorId)} ` +
      `and w.table_id = ${relation.id} and w.key_hash = md5(array[${stagedKey(table)}]::text))`
    );
  }

  /**
   * In no transaction: voids copies of tables whose key is another one by now, as the recorded keys then name no rows. What is recorded of
   * tables that are gone goes too.
   */
  async voidAltered(client: Client, tables: readonly TableShape[]): Promise<void> {
    const byId = new Map(tables.map((table) => [table.relation.id, table.relation]));
    for (const id of [...this.#tables]) {
      const relation = byId.get(id);
      if (relation && !(await this.#isKeyAltered(client, relation))) continue;
      // Without a proof the comparison finds them.
      if (relation && !this.ledger.isUnproved(relation)) await this.ledger.voidOf(client, relation);
      await deleteIncomplete(client, this.connectorId, id, null);
      this.copied(id, false);
    }
  }

  async #isKeyAltered(client: Client, relation: Relation): Promise<boolean> {
    const { rowCount } = await client.query(
      "select from millrace.owed_row where connector_id = $1 and table_id = $2 and key_names <> $3::text[] limit 1",
      [this.connectorId, relation.id, keyNames(relation)],
    );
    return rowCount !== 0;
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
      const point = this.#dueFrom(id);
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

  /** Rows of the table were copied, durably. `areAny`: others are incomplete. */
  copied(tableId: number, areAny: boolean): void {
    this.#reported.delete(tableId);
    if (areAny) this.#tables.add(tableId);
    else this.#tables.delete(tableId);
  }

  /** In the open transaction: the comparison has found every row of the table, and they are whole. */
  async proved(client: Client, tableId: number): Promise<void> {
    if (!this.#tables.has(tableId)) return;
    await deleteIncomplete(client, this.connectorId, tableId, null);
    this.undo.changed(() => this.#tables.add(tableId));
    this.#tables.delete(tableId);
  }

  #isDue(tableId: number, at: Lsn): boolean {
    const point = this.#dueFrom(tableId);
    return point !== null && at >= point;
  }

  /** Null: they are not due. There is no copy; or it is unproved, and the comparison finds them, so that the stream need not wait for a point. */
  #dueFrom(tableId: number): Lsn | null {
    return this.ledger.isUnprovedById(tableId) ? null : this.ledger.pointOf(tableId);
  }
}

/** In the transaction that ends an incremental copy: records the rows that the stream has brought in part. Returns whether any are incomplete. */
export async function recordPartial(
  client: Client,
  connectorId: string,
  relation: Relation,
  touched: TargetName,
): Promise<boolean> {
  const { id, key } = relation;
  const keys = key.map((_, i) => `k.k${i}::text`).join(", ");
  await client.query(
    `insert into millrace.owed_row (connector_id, table_id, key_hash, row_key, key_names) ` +
      `select $1, $2, md5(array[${keys}]::text), array[${keys}], $3::text[] from ${sqlName(touched)} k ` +
      `where k.is_partial on conflict do nothing`,
    [connectorId, id, keyNames(relation)],
  );
  const { rowCount } = await client.query(
    "select from millrace.owed_row where connector_id = $1 and table_id = $2 limit 1",
    [connectorId, id],
  );
  return rowCount !== 0;
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

/** The key of a staged row, as SQL texts. */
function stagedKey({ key }: PreparedTable): string {
  return key.map((i) => `s.c${i}::text`).join(", ");
}
