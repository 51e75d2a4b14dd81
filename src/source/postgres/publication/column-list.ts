// Decides which tables are published with a column list, so that excluded columns never leave the server. Excluded
// columns of other tables are dropped when they arrive. Pure.
// https://www.postgresql.org/docs/current/logical-replication-col-lists.html

import { isIdentified } from "../../../change/relation.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";

/** PostgreSQL 15. */
export const firstWithColumnLists = 150_000;

/**
 * The columns to list; null: publish the whole table. A list must contain the replica identity of every UPDATE and
 * DELETE that is published, or the application's own statements fail. Identity FULL is every column, and a partition
 * that is published via its root must satisfy its own identity.
 */
export function columnListOf(table: SourceTable): readonly string[] | null {
  const { relation, coverage, hasOtherLeafIdentities } = table;
  const columns = table.facts.map(({ name }) => name);
  if (!coverage || coverage.excluded.length === 0 || columns.length === 0) return null;
  if (!isIdentified(relation)) return columns;
  return relation.replicaIdentity === "full" || hasOtherLeafIdentities ? null : columns;
}
