// SQL for the value that existing rows got when a column was added, as the catalog keeps it. For queries of pg_class
// `c` and pg_attribute `a`.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html (atthasmissing, attmissingval)

import { leavesOf } from "./partition-leaves.ts";

/**
 * Joined to `c` and `a`. A partitioned table has no rows and no such value: its leaves have it, under the same column
 * name but other numbers. `offset 0` reads each leaf by itself: otherwise all columns of the database are read for each
 * root.
 */
export const leafValuesJoin = `
left join lateral (
  select added.attname as name, array_agg(added.xmin::text) as versions,
    count(*) = (select count(*) from ${leavesOf("c.oid")}) as is_in_all,
    case when min(array_to_string(added.attmissingval, '')) = max(array_to_string(added.attmissingval, ''))
      then min(array_to_string(added.attmissingval, '')) end as value
  from ${leavesOf("c.oid")}
  cross join lateral (
    select attname, xmin, attmissingval from pg_attribute
    where attrelid = leaf.relid and attnum > 0 and atthasmissing offset 0
  ) added
  where c.relkind = 'p'
  group by added.attname
) leaf_value on leaf_value.name = a.attname`;

/**
 * The text of `attmissingval`, an array of one element.
 *
 * For a partitioned table: the value that its leaves agree on, if one of them got it in the root's own transaction, or
 * if all have it. A leaf that was created later, or rewritten, has none; one that was attached may have another
 * table's.
 */
export const addedValueSql = `case
    when c.relkind <> 'p' then array_to_string(a.attmissingval, '')
    when leaf_value.is_in_all or a.xmin::text = any(leaf_value.versions) then leaf_value.value end`;

/** Whether there is such a value, even where it is not certain which. */
export const hasAddedValueSql = "(a.atthasmissing or leaf_value.name is not null)";
