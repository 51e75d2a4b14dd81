// Finds objects at the sink that depend on columns or keys which are to be dropped or to get another type. The server refuses such a change
// while they exist, and only a person can decide what to do with them.
// https://www.postgresql.org/docs/current/catalog-pg-depend.html

import type { Client } from "pg";
import { qualifiedName } from "../../../../change/relation.ts";
import { MigrationRefused } from "../../refusals/migration-refused.ts";
import type { TargetTable } from "../target-table.ts";
import type { TableChange } from "./table-migration.ts";

interface Dependent {
  readonly what: string;
  readonly on: string;
  readonly sql: string;
}

/**
 * `$1`: the table; `$2`: columns to be dropped; `$3`: columns to get another type; `$4`: indexes of keys to be dropped. Foreign keys of other
 * tables, and views that group by a key, depend on its index and its constraint.
 */
const dependentsQuery = `
with wanted as (
  select 'pg_class'::regclass as class, a.attrelid as id, a.attnum::int4 as part, 'column ' || quote_ident(a.attname) as name,
    a.attname = any ($2::text[]) as is_dropped
  from pg_attribute a where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped and a.attname = any ($2::text[] || $3::text[])
  union all
  select 'pg_class'::regclass, i.indexrelid, 0, 'key ' || quote_ident(k.relname), true
  from pg_index i join pg_class k on k.oid = i.indexrelid where i.indrelid = $1 and k.relname = any ($4::text[])
  union all
  select 'pg_constraint'::regclass, c.oid, 0, 'key ' || quote_ident(c.conname), true
  from pg_constraint c where c.conrelid = $1 and c.conname = any ($4::text[])
)
select distinct pg_describe_object(d.classid, d.objid, d.objsubid) as what, wanted.name as on,
  case
    when v.relkind is not null and r.rulename = '_RETURN' then
      'drop ' || case v.relkind when 'm' then 'materialized view ' else 'view ' end || v.oid::regclass
    when v.relkind is not null then format('drop rule %I on %s', r.rulename, v.oid::regclass)
    when g.attname is not null then format('alter table %s alter column %I drop expression', g.attrelid::regclass, g.attname)
    when c.conname is not null then format('alter table %s drop constraint %I', c.conrelid::regclass, c.conname)
    else 'drop ' || o.type || ' ' || o.identity end as sql
from wanted
join pg_depend d on d.refclassid = wanted.class and d.refobjid = wanted.id and d.refobjsubid = wanted.part
left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
left join pg_class v on v.oid = r.ev_class
left join pg_attrdef e on d.classid = 'pg_attrdef'::regclass and e.oid = d.objid
left join pg_attribute g on g.attrelid = e.adrelid and g.attnum = e.adnum and g.attgenerated <> ''
  and (g.attrelid, g.attnum) <> (wanted.id, wanted.part) and not (g.attrelid = $1 and g.attname = any ($2::text[]))
left join pg_constraint c on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) o
where case
  when d.classid = 'pg_attrdef'::regclass then g.attname is not null
  when d.classid = 'pg_constraint'::regclass then d.deptype = 'n' and wanted.is_dropped
  else d.deptype = 'n' end
order by 1, 2`;

/** Why the server would refuse the changes; null: the catalog shows no reason. `computed`: columns to be dropped before them. */
export async function findDependents(
  client: Client,
  table: TargetTable,
  changes: readonly TableChange[],
  computed: readonly string[] = [],
): Promise<MigrationRefused | null> {
  const dropped = [
    ...computed,
    ...changes.flatMap((change) => (change.kind === "drop" ? [change.name] : [])),
  ];
  const retyped = retypedNames(changes);
  const keys = changes.flatMap((change) => (change.kind === "drop key" ? [change.name] : []));
  if (dropped.length + retyped.length + keys.length === 0) return null;
  const { rows } = await client.query<Dependent>(dependentsQuery, [table.oid, dropped, retyped, keys]);
  if (rows.length === 0) return null;
  const uses = rows.map(({ what, on }) => `${what} uses ${on}`).join(", ");
  return new MigrationRefused(
    `Table ${qualifiedName(table.target)} at the sink cannot follow the source's: ${uses}, which the source has altered or ` +
      "dropped. What is taken away for it can be made anew behind that.",
    [...new Set(rows.map(({ sql }) => sql))],
  );
}

/** The columns that get another type, as they are called at the sink before the renames. */
export function retypedNames(changes: readonly TableChange[]): readonly string[] {
  return changes.flatMap((change) =>
    change.kind === "retype" ? [nameBefore(change.column.name, changes)] : [],
  );
}

/** What a column is called at the sink before the renames. */
export function nameBefore(name: string, changes: readonly TableChange[]): string {
  let then = name;
  for (const change of changes.toReversed()) {
    if (change.kind === "rename" && change.to === then) then = change.from;
  }
  return then;
}
