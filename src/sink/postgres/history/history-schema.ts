// Makes a history and lets it follow the columns of its table, in the open transaction.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { inSavepoint } from "../../../connection/in-savepoint.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { resolveTypes } from "../schema/table-schema.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import { historyComment, type TargetTable } from "../schema/target-table.ts";
import type { HistoryChange, WantedColumn } from "./history-migration.ts";
import { hasHistory, historyColumns, historyKeyComment } from "./history-naming.ts";

/** The relation's columns as the history is to have them: with the target's types, without domains and what they demand. */
export async function wantedColumns(
  client: Client,
  table: TargetTable,
  { columns }: Relation,
): Promise<readonly WantedColumn[]> {
  const stored = new Map(table.columns.map((column) => [column.name, column]));
  const plain = [...stored.values()].filter(({ isDomain }) => isDomain).map(({ plainType }) => plainType);
  const names = await typeNames(client, plain);
  return columns.filter(hasHistory).map(({ name, number, addedValue, typeName: sourceType }) => {
    const column = stored.get(name);
    const type = column?.isDomain ? (names.get(column.plainType) ?? column.plainType) : column?.typeName;
    return { name, number, addedValue, sourceType, type: type ?? "text" };
  });
}

/** As `wantedColumns`, for a table that is yet to be made or altered. */
export async function columnsToBe(client: Client, { columns }: Relation): Promise<readonly WantedColumn[]> {
  const own = columns.filter(hasHistory);
  const types = await resolveTypes(client, own);
  return own.map(({ name, number, addedValue, typeName: sourceType }, i) => {
    return { name, number, addedValue, sourceType, type: types[i]?.name ?? "text" };
  });
}

/** As `format_type` prints them. */
async function typeNames(client: Client, types: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (types.length === 0) return new Map();
  const { rows } = await client.query<{ type: string; name: string }>(
    "select type, format_type(to_regtype(type), null) as name from unnest($1::text[]) as t(type)",
    [types],
  );
  return new Map(rows.map(({ type, name }) => [type, name]));
}

export async function createHistory(
  client: Client,
  history: TargetName,
  columns: readonly WantedColumn[],
  key: readonly string[],
): Promise<void> {
  const name = sqlName(history);
  const list = [
    ...columns.map((column) => `${escapeIdentifier(column.name)} ${column.type}`),
    ...historyColumns.map((column) => `${escapeIdentifier(column.name)} ${column.type} not null`),
  ];
  await client.query(`create table ${name} (${list.join(", ")}, primary key (_sm_lsn, _sm_ordinal))`);
  await client.query(`comment on table ${name} is ${escapeLiteral(historyComment)}`);
  // A version ends with its key's next change or with the next of these, which are few.
  await client.query(`create index on ${name} (_sm_lsn, _sm_ordinal) where _sm_op = 't'`);
  await fitHistoryKey(client, history, key);
}

const keyIndexQuery = `
select quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name, array(
  select a.attname::text from pg_attribute a where a.attrelid = c.oid order by a.attnum) as columns
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where i.indrelid = to_regclass($1) and obj_description(c.oid, 'pg_class') = $2`;

const newIndexQuery = `
select quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where i.indrelid = to_regclass($1) order by i.indexrelid::int8 desc limit 1`;

/** Makes the index that finds a key's versions; one of another key goes. */
export async function fitHistoryKey(
  client: Client,
  history: TargetName,
  key: readonly string[],
): Promise<void> {
  const { rows } = await client.query<{ name: string; columns: readonly string[] }>(keyIndexQuery, [
    sqlName(history),
    historyKeyComment,
  ]);
  const wanted = key.length === 0 ? [] : [...key, "_sm_lsn", "_sm_ordinal"];
  if (rows.length === 1 && attributes(rows[0]?.columns ?? []) === attributes(wanted)) return;
  for (const { name } of rows) await client.query(`drop index ${name}`);
  if (wanted.length === 0) return;
  await client.query(`create index on ${sqlName(history)} (${sqlList(wanted)})`);
  const made = await client.query<{ name: string }>(newIndexQuery, [sqlName(history)]);
  await client.query(`comment on index ${made.rows[0]?.name} is ${escapeLiteral(historyKeyComment)}`);
}

function attributes(names: readonly string[]): string {
  return JSON.stringify(names);
}

/** Returns the changes as they were made: a column that could not be converted was renamed, and begins anew. */
export async function changeHistory(
  client: Client,
  history: TargetName,
  changes: readonly HistoryChange[],
): Promise<readonly HistoryChange[]> {
  const made: HistoryChange[] = [];
  for (const change of changes) {
    const isKept = change.kind === "retype" && !(await retype(client, history, change));
    const steps = isKept ? beginAnew(change) : [change];
    for (const step of steps) if (step.kind !== "retype") await alterHistory(client, history, step);
    made.push(...steps);
  }
  return made;
}

function beginAnew({
  name,
  type,
  aside,
}: Extract<HistoryChange, { kind: "retype" }>): readonly HistoryChange[] {
  return [
    { kind: "rename", from: name, to: aside },
    { kind: "add", name, type, value: null, isAnew: true },
  ];
}

async function alterHistory(
  client: Client,
  history: TargetName,
  change: Exclude<HistoryChange, { kind: "retype" }>,
): Promise<void> {
  const alter = `alter table ${sqlName(history)}`;
  if (change.kind === "rename") {
    const [from, to] = [change.from, change.to].map(escapeIdentifier);
    await client.query(`${alter} rename column ${from} to ${to}`);
    return;
  }
  const name = escapeIdentifier(change.name);
  // A default only for a moment: rows from before show what the source gave them.
  const value = change.value === null ? "" : ` default ${escapeLiteral(change.value)}`;
  await client.query(`${alter} add column ${name} ${change.type}${value}`);
  if (value !== "") await client.query(`${alter} alter column ${name} drop default`);
}

/** Converts the column where every value comes back as it was. Returns false, and changes nothing, where one would not, or a view uses it. */
async function retype(
  client: Client,
  history: TargetName,
  { name, type }: Extract<HistoryChange, { kind: "retype" }>,
): Promise<boolean> {
  const column = escapeIdentifier(name);
  const table = sqlName(history);
  const convert = async () => {
    const { rows } = await client.query<{ before: string }>(
      "select format_type(atttypid, atttypmod) as before from pg_attribute where attrelid = to_regclass($1) and attname = $2",
      [table, name],
    );
    const back = `(${column}::${type})::${rows[0]?.before}`;
    const lost = await client.query(
      `select from ${table} where not pg_catalog.record_image_eq(row(${column}), row(${back})) limit 1`,
    );
    if (lost.rowCount !== 0) return false;
    await client.query(`alter table ${table} alter column ${column} type ${type} using ${column}::${type}`);
    return true;
  };
  // Where there is no such cast, a value does not fit, or something uses the column, it stays, under another name.
  return await inSavepoint(client, convert).catch(() => false);
}
