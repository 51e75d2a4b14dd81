// The partitions that hold the rows of a partitioned table, as SQL.

/**
 * A subquery, called `leaf`, of the OIDs `relid`: of the table itself, where it is not partitioned. `root`: its OID, as SQL. Server functions that
 * know the tree lock each partition, and would wait for as long as somebody alters one.
 * https://www.postgresql.org/docs/current/catalog-pg-inherits.html
 */
export function leavesOf(root: string): string {
  return `(with recursive tree as (
    select ${root} as relid union all
    select i.inhrelid from tree join pg_class p on p.oid = tree.relid and p.relkind = 'p'
      join pg_inherits i on i.inhparent = p.oid and not i.inhdetachpending
  ) select tree.relid from tree join pg_class k on k.oid = tree.relid where k.relkind <> 'p') leaf`;
}
