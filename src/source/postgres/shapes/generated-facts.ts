// Reads what the catalog knows of generated columns: their expressions, and on what the expressions depend.
// https://www.postgresql.org/docs/current/ddl-generated-columns.html

import type { Client } from "pg";
import type { UsedColumn, UsedFunction } from "../../../change/relation.ts";
import { columnLocaleSql, databaseLocaleSql } from "../../../connection/column-locale.ts";
import { columnsRead } from "../../../connection/columns-read.ts";
import { leavesOf } from "./partition-leaves.ts";

export interface GeneratedFacts {
  readonly tableId: number;
  readonly number: number;
  readonly isVirtual: boolean;
  readonly expression: string;
  readonly uses: readonly UsedColumn[];
  /** As `GeneratedColumn.reads`. */
  readonly reads: readonly number[];
  readonly functions: readonly UsedFunction[];
  /** As `GeneratedColumn.locale`. */
  readonly locale: string | null;
  /**
   * The expression depends on something else that another server need not have alike (a collation, an operator of a
   * user, the table's OID), or partitions have expressions of their own.
   */
  readonly isBound: boolean;
}

/** Before version 15 the column itself depends on what its expression reads, later the expression's own entry does. */
const dependencies = `(
  select refclassid, refobjid, refobjsubid from pg_depend p
  where (p.classid = 'pg_attrdef'::regclass and p.objid = d.oid)
    or (p.classid = 'pg_class'::regclass and p.objid = a.attrelid and p.objsubid = a.attnum)
)`;

const isOfExtension =
  "exists (select from pg_depend e where e.classid = p.refclassid and e.objid = p.refobjid and e.deptype = 'e')";

/** Pinned objects, which are the same on every server, have no entries in pg_depend. */
const factsQuery = `
select a.attrelid::int8::float8 as "tableId", a.attnum as number, a.attgenerated = 'v' as "isVirtual",
  pg_get_expr(d.adbin, d.adrelid) as expression,
  case when d.adbin::text ~ ':inputcollid 100\\M' then ${databaseLocaleSql} end as locale,
  (select coalesce(json_agg(json_build_object('number', u.attnum, 'locale', ${columnLocaleSql("u")}) order by u.attnum), '[]')
    from pg_attribute u where u.attrelid = a.attrelid and u.attnum > 0 and u.attnum <> a.attnum and u.attnum in (
      select p.refobjsubid from ${dependencies} p where p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid)) as uses,
  (select coalesce(json_agg(number order by place), '[]') from ${columnsRead("d.adbin")} r) as reads,
  (select coalesce(json_agg(json_build_object('signature', p.refobjid::regprocedure::text,
      'definition', pg_get_functiondef(p.refobjid)) order by p.refobjid), '[]')
    from ${dependencies} p where p.refclassid = 'pg_proc'::regclass and not ${isOfExtension}) as functions,
  exists (
    select from ${dependencies} p
    where p.refclassid not in ('pg_proc'::regclass, 'pg_type'::regclass) and not ${isOfExtension}
      and not (p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid)
  ) or pg_get_expr(d.adbin, d.adrelid) ~ '\\mtableoid\\M' or exists (
    select from ${leavesOf("a.attrelid")}
    join pg_attribute la on la.attrelid = leaf.relid and la.attname = a.attname
    left join pg_attrdef ld on ld.adrelid = la.attrelid and ld.adnum = la.attnum
    where pg_get_expr(ld.adbin, ld.adrelid) is distinct from pg_get_expr(d.adbin, d.adrelid)
  ) as "isBound"
from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = any ($1::oid[]) and a.attgenerated <> '' and a.attnum > 0 and not a.attisdropped`;

/** The client's search_path must be empty. */
export async function readGeneratedFacts(
  client: Client,
  tableIds: readonly number[],
): Promise<readonly GeneratedFacts[]> {
  if (tableIds.length === 0) return [];
  const { rows } = await client.query<GeneratedFacts>(factsQuery, [tableIds]);
  return rows;
}

/**
 * Which generated columns the publication publishes, as `id number`. A column list counts alone; a partition takes its
 * root's, by name.
 */
const publishedQuery = `
select a.attrelid::int8::text || ' ' || a.attnum::text as key
from pg_attribute a join pg_publication pub on pub.pubname = $1
left join lateral (
  select r.prrelid, to_jsonb(r) -> 'prattrs' as list
  from pg_publication_rel r
  where r.prpubid = pub.oid and (r.prrelid = a.attrelid or r.prrelid in (select relid from pg_partition_ancestors(a.attrelid)))
  order by r.prrelid = a.attrelid desc limit 1
) listed on true
where a.attrelid = any ($2::oid[]) and a.attgenerated = 's' and not a.attisdropped
  and case when jsonb_typeof(listed.list) = 'array' then exists (
      select from jsonb_array_elements_text(listed.list) as l(number)
      join pg_attribute la on la.attrelid = listed.prrelid and la.attnum = l.number::int2 and la.attname = a.attname)
    else to_jsonb(pub) ->> 'pubgencols' = 's' end`;

/** From version 18 on. */
export async function readPublishedGenerated(
  client: Client,
  publication: string,
  tableIds: readonly number[],
): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ key: string }>(publishedQuery, [publication, tableIds]);
  return new Set(rows.map(({ key }) => key));
}
