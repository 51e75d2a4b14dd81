// Which columns each table at the sink has followed so far, kept in the target database so that it moves with the rows. From
// it a later run can tell a renamed column from one that was dropped and one that was added.

import type { Client } from "pg";
import { formatLsn, type Lsn, parseLsn } from "../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../change/relation.ts";
import { type FollowedColumn, followedColumns } from "./table-migration.ts";

export interface ShapeRecord {
  readonly tableId: number;
  /** Changes committed before it may have been made under an earlier shape. */
  readonly since: Lsn;
  readonly columns: readonly FollowedColumn[];
}

interface ShapeRow {
  readonly schema: string;
  readonly name: string;
  readonly table_id: number;
  readonly since: string;
  readonly columns: readonly FollowedColumn[];
}

export class ShapeLedger {
  readonly #records = new Map<string, ShapeRecord>();
  /** What the open transaction has recorded over: null, nothing. */
  readonly #before = new Map<string, ShapeRecord | null>();

  constructor(private readonly connectorId: string) {}

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<ShapeRow>(
      "select table_schema as schema, table_name as name, table_id::float8, since::text, columns " +
        "from millrace.table_shape where connector_id = $1",
      [this.connectorId],
    );
    this.forget();
    for (const { schema, name, table_id: tableId, since, columns } of rows) {
      this.#records.set(qualifiedName({ schema, name }), { tableId, since: parseLsn(since), columns });
    }
  }

  /** Null: nothing is known of the table, or it was another one. */
  of(relation: Relation): ShapeRecord | null {
    const record = this.#records.get(qualifiedName(relation));
    return record?.tableId === relation.id ? record : null;
  }

  /** The table follows the relation by now. Durable with the transaction that is open. */
  async record(client: Client, relation: Relation, since: Lsn): Promise<void> {
    await recordShape(client, this.connectorId, relation, since);
    const key = qualifiedName(relation);
    if (!this.#before.has(key)) this.#before.set(key, this.#records.get(key) ?? null);
    this.add(relation, since);
  }

  /** What another session has recorded and committed. */
  add(relation: Relation, since: Lsn): void {
    const record = { tableId: relation.id, since, columns: followedColumns(relation) };
    this.#records.set(qualifiedName(relation), record);
  }

  committed(): void {
    this.#before.clear();
  }

  rolledBack(): void {
    for (const [key, record] of this.#before) {
      if (record) this.#records.set(key, record);
      else this.#records.delete(key);
    }
    this.#before.clear();
  }

  forget(): void {
    this.#records.clear();
    this.#before.clear();
  }
}

/** Durable with the transaction that is open. */
export async function recordShape(
  client: Client,
  connectorId: string,
  relation: Relation,
  since: Lsn,
): Promise<void> {
  const columns = JSON.stringify(followedColumns(relation));
  await client.query(
    "insert into millrace.table_shape (connector_id, table_schema, table_name, table_id, since, columns) " +
      "values ($1, $2, $3, $4, $5, $6) on conflict (connector_id, table_schema, table_name) do update " +
      "set table_id = excluded.table_id, since = excluded.since, columns = excluded.columns",
    [connectorId, relation.schema, relation.name, relation.id, formatLsn(since), columns],
  );
}
