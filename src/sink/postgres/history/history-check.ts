// Finds out why a history cannot take rows: somebody else's table has its name, or somebody has altered it. The table is set aside until that is
// mended. https://www.postgresql.org/docs/current/catalog-pg-constraint.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { MigrationRefused } from "../refusals/migration-refused.ts";
import { nameTaken } from "../schema/taken-name.ts";
import type { TargetName } from "../schema/target-name.ts";
import { historyComment, readTargetTable, type TargetTable } from "../schema/target-table.ts";
import type { FollowedHistoryColumn } from "./history-ledger.ts";
import { lostColumns, planHistory, type WantedColumn } from "./history-migration.ts";
import { hasHistory, historyColumnNames, historyColumns, nameBefore } from "./history-naming.ts";

/** A history as it is at the sink, and what it has to follow. */
export interface CheckedHistory {
  readonly name: TargetName;
  readonly followed: readonly FollowedHistoryColumn[];
  readonly wanted: readonly WantedColumn[];
}

/** Null: there is no table of its name. Throws MigrationRefused where rows cannot go there. */
export async function readHistory(client: Client, history: CheckedHistory): Promise<TargetTable | null> {
  const table = await readTargetTable(client, history.name);
  if (table === null) return null;
  const commands = [...columnRepairs(table, history), ...(await constraintRepairs(client, history.name))];
  if (commands.length > 0) throw altered(history.name, commands);
  return table;
}

/** https://www.postgresql.org/docs/current/limits.html */
const maxColumns = 1_600;

function tooWide(name: TargetName, relation: Relation): MigrationRefused {
  const own = `${historyColumns.length} columns more than ${qualifiedName(relation)}`;
  return new MigrationRefused(
    `History ${qualifiedName(name)} would have ${own}, and a table has at most ${maxColumns}: exclude columns, or set history_enabled of the table to false.`,
    [],
  );
}

/**
 * Throws MigrationRefused where a column of the table has the name of one of the history's own, or there are too many columns. `name`: of the
 * history.
 */
export function requireOwnColumns(name: TargetName, relation: Relation): void {
  const clash = relation.columns.find(
    (column) => hasHistory(column) && historyColumnNames.includes(column.name),
  );
  if (clash) throw clashing(name, clash.name);
  if (relation.columns.filter(hasHistory).length + historyColumns.length > maxColumns)
    throw tooWide(name, relation);
}

/** Throws MigrationRefused where something else has the name. */
export async function requireOwnName(client: Client, name: TargetName): Promise<void> {
  const taken = await nameTaken(client, name);
  if (taken) throw taken;
  const table = await readTargetTable(client, name);
  if (table && !table.isHistory) throw othersTable(name);
}

function columnRepairs(table: TargetTable, { name, followed, wanted }: CheckedHistory): readonly string[] {
  const columns = table.columns.map((column) => ({ name: column.name, type: column.typeName }));
  const alter = `alter table ${sqlName(name)}`;
  if (lostColumns(columns, historyColumns).length > 0) {
    const isTaken = (other: string) => other === name.name;
    return [`${alter} rename to ${escapeIdentifier(nameBefore(name.name, isTaken))}`];
  }
  const others = table.columns.filter((column) => !historyColumnNames.includes(column.name));
  const lost = followed.filter(
    ({ number, name: column, isKept }) =>
      !isKept &&
      wanted.some((one) => (number > 0 ? one.number === number : one.name === column)) &&
      !columns.some((one) => one.name === column),
  );
  const restored = lost.map(({ name: column, type }) => {
    const strangers = others.filter(
      (one) => one.typeName === type && !followed.some((known) => known.name === one.name),
    );
    const [stranger] = strangers;
    return stranger && strangers.length === 1
      ? `${alter} rename column ${escapeIdentifier(stranger.name)} to ${escapeIdentifier(column)}`
      : `${alter} add column ${escapeIdentifier(column)} ${type}`;
  });
  if (restored.length > 0) return restored;
  const retyped = planHistory(columns, followed, wanted).altered.map(({ name: column, type }) => {
    const quoted = escapeIdentifier(column);
    return `${alter} alter column ${quoted} type ${type} using ${quoted}::${type}`;
  });
  const demanding = others.flatMap((column) => {
    const quoted = `alter column ${escapeIdentifier(column.name)}`;
    if (column.generated) return [`${alter} ${quoted} drop expression`];
    return column.notNull ? [`${alter} ${quoted} drop not null`] : [];
  });
  return [...retyped, ...demanding];
}

/** A unique index that has both of the history's own columns refuses nothing: a table that is divided by time has them and the time. */
const constraintsQuery = `
select 'constraint' as kind, c.conname as name, null as schema from pg_constraint c
where c.conrelid = to_regclass($1) and (c.contype in ('c', 'f', 'x') or c.contype in ('p', 'u') and not exists (
  select from pg_attribute a where a.attrelid = c.conindid and a.attname in ('_sm_lsn', '_sm_ordinal') having count(*) = 2))
union all
select 'index', k.relname, n.nspname from pg_index i join pg_class k on k.oid = i.indexrelid join pg_namespace n on n.oid = k.relnamespace
where i.indrelid = to_regclass($1) and i.indisunique and not exists (select from pg_constraint c where c.conindid = i.indexrelid)
  and not exists (select from pg_attribute a where a.attrelid = i.indexrelid and a.attname in ('_sm_lsn', '_sm_ordinal') having count(*) = 2)
order by 1, 2`;

async function constraintRepairs(client: Client, history: TargetName): Promise<readonly string[]> {
  const { rows } = await client.query<{ kind: string; name: string; schema: string | null }>(
    constraintsQuery,
    [sqlName(history)],
  );
  return rows.map(({ kind, name, schema }) =>
    kind === "index"
      ? `drop index ${sqlName({ schema: schema ?? history.schema, name })}`
      : `alter table ${sqlName(history)} drop constraint ${escapeIdentifier(name)}`,
  );
}

function clashing(history: TargetName, column: string): MigrationRefused {
  return new MigrationRefused(
    `The table has a column ${column}, which is the name of one of the history's own in ${qualifiedName(history)}: exclude the column ` +
      "in the catalog, rename it, or switch history_enabled off.",
    [],
  );
}

function othersTable(history: TargetName): MigrationRefused {
  const name = sqlName(history);
  const aside = escapeIdentifier(nameBefore(history.name, (other) => other === history.name));
  return new MigrationRefused(
    `Table ${qualifiedName(history)} at the sink has the name of a history, and is none that millrace has made: give it another name, ` +
      `or set another suffix in history_mode. If it is a history: COMMENT ON TABLE ${name} IS ${escapeLiteral(historyComment)};`,
    [`alter table ${name} rename to ${aside}`],
  );
}

function altered(history: TargetName, commands: readonly string[]): MigrationRefused {
  return new MigrationRefused(
    `The history ${qualifiedName(history)} was altered at the sink, and cannot take every row any longer.`,
    commands,
  );
}
