// A cheap look at the catalog that shows whether the tables have to be read again.

import type { Client } from "pg";
import { isBookkeeping } from "./table-shapes.ts";

const fingerprintQuery = `
select (select md5(coalesce(string_agg(concat_ws(' ', enumtypid, enumlabel), ',' order by enumtypid, enumsortorder), '')) from pg_enum)
  || (select md5(coalesce(string_agg(concat_ws(' ', a.attrelid, a.attnum, a.attname), ',' order by a.attrelid, a.attnum), ''))
    from pg_class c join pg_attribute a on a.attrelid = c.oid where c.relkind = 'c' and a.attnum > 0)
  || md5(coalesce(string_agg(
  concat_ws(' ', c.oid, n.nspname, c.relname, c.relkind, c.relispartition, c.relreplident, i.keys, a.columns, links.made_by), ',' order by c.oid), ''))
  as print
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
  select string_agg(concat_ws(' ', indexrelid, indisprimary, indisreplident), ',' order by indexrelid) as keys
  from pg_index where indrelid = c.oid and (indisprimary or indisreplident)
) i on true
left join lateral (
  select concat_ws(' ', c.relfilenode, string_agg(inherits.xmin::text, ',')) as made_by
  from pg_inherits inherits where inhrelid = c.oid
) links on c.relispartition
left join lateral (
  select string_agg(concat_ws(' ', attnum, attname, atttypid, xmin), ',' order by attnum) as columns
  from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
) a on true
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
  and not ${isBookkeeping}`;

/**
 * Changes when a table is created, dropped or renamed, when its columns or its identity are altered, when a partition
 * is attached, detached or truncated, and when an enum or a composite type is altered.
 */
export async function readTablesFingerprint(client: Client): Promise<string> {
  const { rows } = await client.query<{ print: string }>(fingerprintQuery);
  return rows[0]?.print ?? "";
}
