// Records the shape that each target follows: the source table's name, columns and key. The records are in the target database and change with
// the rows. They let a later run tell a renamed table or column from one that was dropped and one that was added.

import type { Client } from "pg";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import { keyNumbers } from "../schema/migration/key-migration.ts";
import {
  type FollowedColumn,
  type FollowedShape,
  followedColumns,
  keptColumns,
} from "../schema/migration/table-migration.ts";
import type { TargetTable } from "../schema/target-table.ts";

export interface ShapeRecord extends FollowedShape {
  readonly tableId: number;
  /** At the source. */
  readonly schema: string;
  readonly name: string;
  /** Changes committed before it may have an earlier shape. */
  readonly since: Lsn;
  /** As `Relation.displaced`; null: not known. */
  readonly displaced: readonly number[] | null;
}

interface ShapeRow {
  readonly table_id: number;
  readonly schema: string;
  readonly name: string;
  readonly since: string;
  readonly columns: readonly FollowedColumn[];
  readonly key_numbers: readonly number[] | null;
  readonly displaced: readonly number[] | null;
  readonly is_former: boolean;
}

export class ShapeLedger {
  readonly #records = new Map<number, ShapeRecord>();
  /** Of before the connector began anew, by their names. */
  readonly #former = new Map<string, ShapeRecord>();
  /** OIDs of tables, by the names that the tables have at the sink. */
  readonly #ids = new Map<string, number>();

  constructor(
    private readonly connectorId: string,
    private readonly undo: UndoLog,
  ) {}

  async load(client: Client): Promise<void> {
    const { rows } = await client.query<ShapeRow>(
      "select table_id::float8, table_schema as schema, table_name as name, since::text, columns, key_numbers, displaced, is_former " +
        "from millrace.table_shape where connector_id = $1",
      [this.connectorId],
    );
    for (const each of [this.#records, this.#ids, this.#former]) each.clear();
    for (const { table_id: tableId, since, key_numbers: key, is_former: isFormer, ...row } of rows) {
      const record = { ...row, tableId, key, since: parseLsn(since) };
      if (isFormer) this.#former.set(qualifiedName(record), record);
      else this.#put(record);
    }
  }

  /** Null: nothing is known of the table. */
  of({ id }: Pick<Relation, "id">): ShapeRecord | null {
    return this.#records.get(id) ?? null;
  }

  /** The known table that has the name at the sink; null: there is none. */
  named(name: Pick<Relation, "schema" | "name">): ShapeRecord | null {
    const id = this.#ids.get(qualifiedName(name));
    return id === undefined ? null : this.of({ id });
  }

  /** What the target of this name followed before the connector began anew: the source's tables may have other OIDs since. Null: not known. */
  former(name: Pick<Relation, "schema" | "name">): ShapeRecord | null {
    return this.#former.get(qualifiedName(name)) ?? null;
  }

  /** Records that `table` follows the relation. Durable with the open transaction. */
  async record(client: Client, relation: Relation, since: Lsn, table: TargetTable): Promise<void> {
    await this.#write(client, shapeRecord(relation, since, this.of(relation), table));
  }

  /** Records that the table was renamed. Durable with the open transaction. */
  async rename(client: Client, record: ShapeRecord, to: Pick<Relation, "schema" | "name">): Promise<void> {
    await this.#write(client, { ...record, schema: to.schema, name: to.name });
  }

  /** Adds what another session has recorded and committed. */
  add(record: ShapeRecord): void {
    const other = this.#otherNamed(record);
    if (other) this.#remove(other);
    this.#former.delete(qualifiedName(record));
    this.#put(record);
  }

  #put(record: ShapeRecord): void {
    const before = this.of({ id: record.tableId });
    if (before) this.#remove(before);
    this.#records.set(record.tableId, record);
    this.#ids.set(qualifiedName(record), record.tableId);
  }

  #remove(record: ShapeRecord): void {
    const name = qualifiedName(record);
    this.#records.delete(record.tableId);
    if (this.#ids.get(name) === record.tableId) this.#ids.delete(name);
  }

  /** Another table that has the record's name. */
  #otherNamed(record: ShapeRecord): ShapeRecord | null {
    const named = this.named(record);
    return named?.tableId === record.tableId ? null : named;
  }

  /** The connector begins anew. */
  detach(): void {
    for (const record of this.#records.values()) this.#former.set(qualifiedName(record), record);
    for (const each of [this.#records, this.#ids]) each.clear();
  }

  async #write(client: Client, record: ShapeRecord): Promise<void> {
    await writeShape(client, this.connectorId, record);
    const { tableId } = record;
    const before = this.#records.get(tableId);
    const displaced = this.#otherNamed(record);
    const former = this.former(record);
    this.undo.changed(() => {
      this.#remove(record);
      if (former) this.#former.set(qualifiedName(former), former);
      for (const each of [displaced, before]) if (each) this.#put(each);
    });
    this.add(record);
  }
}

/** For another session, in its open transaction. `before`: the shape that the table followed. `table`: null for a new one. */
export async function recordShape(
  client: Client,
  connectorId: string,
  relation: Relation,
  since: Lsn,
  before: ShapeRecord | null,
  table: TargetTable | null,
): Promise<ShapeRecord> {
  const record = shapeRecord(relation, since, before, table);
  await writeShape(client, connectorId, record);
  return record;
}

/** Whether the table follows the relation's name, columns and key. */
export function isFollowed(record: ShapeRecord | null, relation: Relation): boolean {
  return (
    record !== null &&
    record.schema === relation.schema &&
    record.name === relation.name &&
    JSON.stringify(record.columns.filter(({ isKept }) => !isKept)) ===
      JSON.stringify(followedColumns(relation)) &&
    hasSameKey(record, relation)
  );
}

/** Whether a column of the relation was displaced by another one before: rows at the sink lack its values. */
export function hasColumnFromBefore(record: ShapeRecord | null, { columns }: Relation): boolean {
  return columns.some(({ number }) => number > 0 && record?.displaced?.includes(number));
}

/** Whether the record is up to date with the relation. */
export function isRecorded(record: ShapeRecord | null, relation: Relation): boolean {
  return (
    isFollowed(record, relation) && (record?.displaced ?? []).join() === (relation.displaced ?? []).join()
  );
}

/** An unknown key counts as the same. */
export function hasSameKey({ key }: FollowedShape, relation: Relation): boolean {
  return key === null || key.join() === keyNumbers(relation).join();
}

function shapeRecord(
  relation: Relation,
  since: Lsn,
  before: ShapeRecord | null,
  table: TargetTable | null,
): ShapeRecord {
  const { id: tableId, schema, name } = relation;
  const names = new Set(table?.columns.map((column) => column.name));
  const retained = keptColumns(before?.columns ?? [], relation, names);
  const columns = [...followedColumns(relation), ...retained];
  const { displaced = [] } = relation;
  return { tableId, schema, name, since, columns, key: keyNumbers(relation), displaced };
}

/** Deletes the record of another table of this name, which is gone: its late changes must not rename or alter the current table. */
async function writeShape(client: Client, connectorId: string, record: ShapeRecord): Promise<void> {
  const { tableId, schema, name, since, columns, key, displaced } = record;
  await client.query(
    "delete from millrace.table_shape where connector_id = $1 and table_schema = $2 and table_name = $3 and table_id <> $4",
    [connectorId, schema, name, tableId],
  );
  await client.query(
    "insert into millrace.table_shape (connector_id, table_id, table_schema, table_name, since, columns, key_numbers, displaced) " +
      "values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (connector_id, table_id) do update set " +
      "table_schema = excluded.table_schema, table_name = excluded.table_name, since = excluded.since, columns = excluded.columns, " +
      "key_numbers = excluded.key_numbers, displaced = excluded.displaced, is_former = false",
    [connectorId, tableId, schema, name, formatLsn(since), JSON.stringify(columns), key, displaced],
  );
}
