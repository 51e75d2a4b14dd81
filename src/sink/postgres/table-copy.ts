// Takes the copy of one table. Into a table that is new or empty the bytes go from socket to socket; into one that holds rows
// they go through a staging table and replace what has the same key.

import { type Client, escapeIdentifier } from "pg";
import type { Relation } from "../../change/relation.ts";
import { sqlName } from "../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { CopyRequest } from "../sink.ts";
import { recordCopy, type TableCopyRecord } from "./bookkeeping.ts";
import { type ConnectorAtSink, lockForCopy } from "./connector-lock.ts";
import { copyIn } from "./copy-in.ts";
import { copyRecord } from "./copy-ledger.ts";
import { endSetAside } from "./set-aside-tables.ts";
import { recordShape, type ShapeRecord } from "./shape-ledger.ts";
import { type Fitted, fitTable } from "./table-fit.ts";
import { addKey, addKeyOf, createTable } from "./table-schema.ts";
import { sqlList, type TargetName } from "./target-name.ts";
import type { TargetNaming } from "./target-naming.ts";
import { equalSql, keyIndexOf, readTargetTable, type TargetTable } from "./target-table.ts";
import { tracedCopyIn } from "./traced-copy.ts";

const staging = "pg_temp.millrace_copy";

export interface CopyOutcome {
  readonly rows: number;
  readonly record: TableCopyRecord;
  /** What the table follows by now. */
  readonly shape: ShapeRecord;
}

/** What the sink knows of a table that is to be copied into. */
export interface KnownTable {
  /** The columns that it has followed; null: nothing is known of them. */
  readonly shape: ShapeRecord | null;
  /** One of its columns that has to take null. */
  readonly nullColumn: string | null;
  /** A row that is refused is to be told by its key. */
  readonly isTraced: boolean;
}

/** All in one transaction: table, rows, and that the copy was made. */
export async function copyIntoTarget(
  client: Client,
  config: PostgresSinkConfig,
  naming: TargetNaming,
  connector: ConnectorAtSink,
  request: CopyRequest,
  known: KnownTable,
): Promise<CopyOutcome> {
  const { table, mode } = request;
  const target = naming.target(table.relation);
  await client.query("begin");
  await lockForCopy(client, connector);
  const isShared = naming.isShared(table.relation);
  const { existing, isKeyChanged, key } = await ensureTable(client, config, target, request, {
    ...known,
    isShared,
  });
  const isEmpty = existing === null || (mode === "initial" && !(await hasRows(client, existing)));
  const columns = sqlList(table.relation.columns.map((column) => column.name));
  const isHashed = table.relation.isKeyedByHash === true;
  // Which of the rows that it did not bring are this table's own is not known. By another key the rows that are there cannot be found.
  const isReplacing = (mode === "replace" || isKeyChanged) && !isShared;
  const isMerged = !isEmpty && !isReplacing && table.relation.key.length > 0;
  const isTraced = known.isTraced && request.form === "text" && !existing?.isReferred;
  const take = async (sql: string) =>
    isTraced
      ? await tracedCopyIn(client, sql, table.relation, request.chunks)
      : await copyIn(client, sql, request.chunks);
  let rows: number;
  if (isEmpty && !isHashed) {
    rows = await take(copySql(sqlName(target), columns, request));
    if (existing === null) await addKeyOf(client, target, table);
  } else {
    await client.query(
      `create temporary table millrace_copy on commit drop as select ${columns} from ${sqlName(target)} with no data`,
    );
    rows = await take(copySql(staging, columns, request));
    const into = existing ?? (await readTargetTable(client, target));
    if (!into) throw new Error("a table is not there after it was made");
    await merge(client, into, columns, table.relation, isMerged);
    if (isHashed && !key && !keyIndexOf(into, table.relation)) await addKeyOf(client, target, table);
  }
  if (key) await addKey(client, target, key);
  const record = copyRecord(table, request.lsn, isMerged);
  await recordCopy(client, connector.connectorId, record);
  const { connectorId } = connector;
  const shape = await recordShape(client, connectorId, table.relation, request.lsn, known.shape, existing);
  await endSetAside(client, connectorId, table.relation);
  await client.query("commit");
  return { rows, record, shape };
}

/** `existing`: the table that was there; null when it was made. */
async function ensureTable(
  client: Client,
  config: PostgresSinkConfig,
  target: TargetName,
  request: CopyRequest,
  { shape, nullColumn, isShared }: KnownTable & { readonly isShared: boolean },
): Promise<Pick<Fitted, "isKeyChanged" | "key"> & { readonly existing: TargetTable | null }> {
  const existing = await readTargetTable(client, target);
  if (!existing) {
    await createTable(client, target, request.table);
    return { existing: null, isKeyChanged: false, key: null };
  }
  const { relation } = request.table;
  const { isChanged, ...fitted } = await fitTable(
    client,
    config.migration_strategy,
    existing,
    shape,
    relation,
    { areReplaced: request.mode === "replace" && !isShared, isShared },
  );
  if (existing.columns.some(({ name, notNull }) => name === nullColumn && notNull)) {
    const column = escapeIdentifier(nullColumn ?? "");
    await client.query(`alter table ${sqlName(target)} alter column ${column} drop not null`);
  }
  return { ...fitted, existing: isChanged ? await readTargetTable(client, target) : existing };
}

async function hasRows(client: Client, table: TargetTable): Promise<boolean> {
  const { rowCount } = await client.query(`select from ${table.ownRows} limit 1`);
  return rowCount === 1;
}

function copySql(into: string, columns: string, request: CopyRequest): string {
  const list = columns === "" ? "" : ` (${columns})`;
  return `copy ${into}${list} from stdin (format ${request.form})`;
}

/**
 * Rows without a key cannot be matched: the copy takes the place of all of them, in either mode. A reader sees the
 * rows before or the rows after, as DELETE and INSERT share the transaction.
 */
async function merge(
  client: Client,
  table: TargetTable,
  columns: string,
  relation: Relation,
  isMerged: boolean,
): Promise<void> {
  await client.query("analyze pg_temp.millrace_copy");
  const match = keyMatch(table, relation);
  if (match !== null && (table.isReferred || hasExtras(table, relation))) {
    await updateInPlace(client, table, columns, relation, match, isMerged);
    return;
  }
  if (isMerged && match !== null) {
    await client.query(`delete from ${table.ownRows} t using ${staging} s where ${match}`);
  } else {
    await client.query(`delete from ${table.ownRows}`);
  }
  const list = columns === "" ? "" : `(${columns}) `;
  const key = sqlList(relation.key.map((i) => relation.columns[i]!.name));
  const distinct = relation.isKeyedByHash ? `distinct on (${key}) ` : "";
  await client.query(
    `insert into ${sqlName(table.target)} ${list}overriding system value select ${distinct}${columns} from ${staging}`,
  );
}

/** Null without a key. */
function keyMatch(table: TargetTable, relation: Relation): string | null {
  if (relation.key.length === 0 || relation.isKeyedByHash) return null;
  const index = keyIndexOf(table, relation);
  const matches = relation.key.map((i) => {
    const { name } = relation.columns[i]!;
    const indexed = index?.columns.find(({ column }) => column === name);
    return equalSql(indexed, `t.${escapeIdentifier(name)}`, `s.${escapeIdentifier(name)}`);
  });
  return matches.join(" and ");
}

/** Somebody has added columns at the sink: what they hold is known to nobody else. */
function hasExtras(table: TargetTable, relation: Relation): boolean {
  return table.columns.some(
    ({ name, generated }) => !generated && !relation.columns.some((column) => column.name === name),
  );
}

/** Rows whose keys come again stay where they are: others refer to them, or they hold more than the copy brings. */
async function updateInPlace(
  client: Client,
  table: TargetTable,
  columns: string,
  relation: Relation,
  match: string,
  isMerged: boolean,
): Promise<void> {
  const isStaged = `exists (select from ${staging} s where ${match})`;
  if (!isMerged) await client.query(`delete from ${table.ownRows} t where not ${isStaged}`);
  const fixed = table.columns.filter(({ isFixed }) => isFixed).map(({ name }) => name);
  const written = relation.columns.map(({ name }) => name).filter((_, i) => !relation.key.includes(i));
  const differs = written
    .filter((name) => fixed.includes(name))
    .map((name) => `t.${escapeIdentifier(name)} is distinct from s.${escapeIdentifier(name)}`);
  if (differs.length > 0) {
    const condition = `${match} and (${differs.join(" or ")})`;
    await client.query(`delete from ${table.ownRows} t using ${staging} s where ${condition}`);
  }
  const set = written
    .filter((name) => !fixed.includes(name))
    .map((name) => `${escapeIdentifier(name)} = s.${escapeIdentifier(name)}`);
  if (set.length > 0) {
    await client.query(`update ${table.ownRows} t set ${set.join(", ")} from ${staging} s where ${match}`);
  }
  await client.query(
    `insert into ${sqlName(table.target)} (${columns}) overriding system value ` +
      `select ${columns} from ${staging} s where not exists (select from ${table.ownRows} t where ${match})`,
  );
}
