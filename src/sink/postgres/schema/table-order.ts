// Orders tables by their foreign keys, so that their rows can be written in that order. Pure.

import type { TargetTable } from "./target-table.ts";

/**
 * Ranks by OID: a table's rank is greater than that of each table it refers to, except in a cycle, where one reference is ignored. Empty if no
 * table refers to another.
 */
export function rankByReferences(
  tables: readonly Pick<TargetTable, "oid" | "refersTo">[],
): ReadonlyMap<number, number> {
  if (tables.every(({ refersTo }) => refersTo.length === 0)) return new Map();
  const parents = new Map(tables.map(({ oid, refersTo }) => [oid, refersTo]));
  const ranks = new Map<number, number>();
  const underWay = new Set<number>();
  const rankOf = (oid: number): number => {
    const known = ranks.get(oid);
    if (known !== undefined || underWay.has(oid)) return known ?? 0;
    underWay.add(oid);
    const rank = Math.max(0, ...(parents.get(oid) ?? []).map((parent) => rankOf(parent) + 1));
    underWay.delete(oid);
    ranks.set(oid, rank);
    return rank;
  };
  for (const { oid } of tables) rankOf(oid);
  return ranks;
}
