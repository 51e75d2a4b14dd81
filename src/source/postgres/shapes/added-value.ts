// The value that a column got in the rows that were there when it was added, as the catalog remembers it: SQL for queries of
// pg_class `c` and pg_attribute `a`. What a sink makes of it is the sink's.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html (atthasmissing, attmissingval)

/**
 * Joined to `c` and `a`. A partitioned table has no rows and remembers no value: its leaves do, under numbers of their own but
 * under the same name. Each leaf by itself (`offset 0`): all columns of the database would be read for each root.
 */
export const leafValuesJoin = `
left join lateral (
  select leaf.attname as name, array_agg(leaf.xmin::text) as versions,
    count(*) = (select count(*) from pg_partition_tree(c.oid) where isleaf) as is_in_all,
    case when min(array_to_string(leaf.attmissingval, '')) = max(array_to_string(leaf.attmissingval, ''))
      then min(array_to_string(leaf.attmissingval, '')) end as value
  from pg_partition_tree(c.oid) tree
  cross join lateral (
    select attname, xmin, attmissingval from pg_attribute
    where attrelid = tree.relid and attnum > 0 and atthasmissing offset 0
  ) leaf
  where c.relkind = 'p' and tree.isleaf
  group by leaf.attname
) leaf_value on leaf_value.name = a.attname`;

/**
 * The text of `attmissingval`, an array of one element.
 *
 * Of a partitioned table: what its leaves agree on, if one of them got it with the table itself, by the same transaction, or
 * if all have it. A leaf that was made later, or rewritten, has none; one that was attached may have brought another table's.
 */
export const addedValueSql = `case
    when c.relkind <> 'p' then array_to_string(a.attmissingval, '')
    when leaf_value.is_in_all or a.xmin::text = any(leaf_value.versions) then leaf_value.value end`;

/** Whether there is a value, also where it is not certain which. */
export const hasAddedValueSql = "(a.atthasmissing or leaf_value.name is not null)";
