// Indexes and constraints at the sink that the server makes anew where a column gets another type. It fails where one cannot be made for that: an
// index over a part of the rows that compares the column with a text, say. Only a person can decide what to do with it.
// https://www.postgresql.org/docs/current/sql-altertable.html

import type { Client } from "pg";
import { qualifiedName } from "../../../../change/relation.ts";
import { inSavepoint } from "../../../../connection/in-savepoint.ts";
import { sqlStateOf } from "../../../../connection/postgres-failure.ts";
import { MigrationRefused } from "../../refusals/migration-refused.ts";
import type { TargetTable } from "../target-table.ts";
import { retypedNames } from "./column-dependents.ts";
import type { TableChange } from "./table-migration.ts";

interface Rebuilt {
  readonly isForeignKey: boolean;
  readonly sql: string;
}

/** `$1`: the table; `$2`: columns that get another type. Plain indexes can be made for any type that they had before. */
const rebuiltQuery = `
with retyped as (select attnum from pg_attribute where attrelid = $1 and attname = any ($2::text[]))
select false as "isForeignKey", format('drop index %s', k.oid::regclass) as sql
from pg_index i join pg_class k on k.oid = i.indexrelid join pg_am m on m.oid = k.relam
where i.indrelid = $1 and (i.indpred is not null or i.indexprs is not null or m.amname <> 'btree')
  and not exists (select from pg_constraint c where c.conindid = k.oid) and exists (
    select from retyped where attnum = any (i.indkey) or exists (
      select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = k.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid = $1 and d.refobjsubid = attnum))
union all
select c.contype = 'f', format('alter table %s drop constraint %I', c.conrelid::regclass, c.conname)
from pg_constraint c
where c.contype in ('c', 'f', 'x') and exists (
  select from retyped where c.conrelid = $1 and attnum = any (c.conkey) or c.confrelid = $1 and attnum = any (c.confkey))
order by 2`;

async function readRebuilt(
  client: Client,
  { oid }: TargetTable,
  changes: readonly TableChange[],
): Promise<readonly Rebuilt[]> {
  const retyped = retypedNames(changes);
  if (retyped.length === 0) return [];
  return (await client.query<Rebuilt>(rebuiltQuery, [oid, retyped])).rows;
}

/** In the open transaction. Throws MigrationRefused where `alter`, which makes these changes, fails for such an object. */
export async function withRebuilt(
  client: Client,
  table: TargetTable,
  changes: readonly TableChange[],
  alter: () => Promise<void>,
): Promise<void> {
  const rebuilt = await readRebuilt(client, table, changes);
  if (rebuilt.length === 0) return await alter();
  await inSavepoint(client, alter).catch((error: unknown) => {
    throw isOfRebuilt(error, rebuilt) ? rebuiltRefused(table, rebuilt) : error;
  });
}

/**
 * Whether all that was told of them is still there; null: some of it is gone. Only the change itself shows which of them stands in the way, and what
 * is left of them.
 */
export async function stillRebuilt(
  client: Client,
  table: TargetTable,
  changes: readonly TableChange[],
  told: readonly string[],
): Promise<MigrationRefused | null> {
  const ofRebuilt = told.filter((sql) => sql.startsWith("drop index ") || sql.includes(" drop constraint "));
  if (ofRebuilt.length === 0) return null;
  const rebuilt = await readRebuilt(client, table, changes);
  const isThere = (command: string) => rebuilt.some(({ sql }) => sql === command);
  return ofRebuilt.every(isThere) ? rebuiltRefused(table, rebuilt) : null;
}

/** No such operator or function (42883, 42704, 42P13); a foreign key between columns of two types (42804), which a failed cast may be as well. */
function isOfRebuilt(error: unknown, rebuilt: readonly Rebuilt[]): boolean {
  const state = sqlStateOf(error) ?? "";
  if (state === "42804") return rebuilt.some(({ isForeignKey }) => isForeignKey);
  return state.startsWith("42") && state !== "42846" && state !== "42501";
}

function rebuiltRefused({ target }: TargetTable, rebuilt: readonly Rebuilt[]): MigrationRefused {
  return new MigrationRefused(
    `A column of ${qualifiedName(target)} has another type at the source by now, and the sink cannot make all of these for it. ` +
      "What is taken away can be made anew behind that, for the new type.",
    rebuilt.map(({ sql }) => sql),
  );
}
