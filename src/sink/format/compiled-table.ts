// What the hot path needs to know of a relation. It is compiled once.

import { isIdentified, isSystemColumn, qualifiedName, type Relation } from "../../change/relation.ts";
import { tableMaterial } from "./idempotency-key.ts";
import type { RowEncoder } from "./row-encoder.ts";

/**
 * Which requests of a table may be in flight at once:
 * - `byKey`: those that share no key.
 * - `strict`: one alone, since the changes do not always tell which row they mean.
 * - `free`: all, since rows are only added.
 */
export type TableOrder = "byKey" | "strict" | "free";

export interface CompiledTable {
  readonly relation: Relation;
  /** Requests are cut and ordered per table name, whatever shape the rows have. */
  readonly name: string;
  readonly encoder: RowEncoder;
  /** What the idempotency keys of its requests begin with. */
  readonly keyMaterial: Uint8Array;
  /** Columns that identify a row in the idempotency key: the relation's key, or all. */
  readonly identity: readonly number[];
  readonly order: TableOrder;
}

export function compileTable(relation: Relation, encoder: RowEncoder): CompiledTable {
  const keyed = relation.key.length > 0;
  return {
    relation,
    name: qualifiedName(relation),
    encoder,
    keyMaterial: tableMaterial(relation.schema, relation.name),
    identity: keyed
      ? relation.key
      : relation.columns.flatMap((column, index) => (isSystemColumn(column) ? [] : [index])),
    order: tableOrder(relation),
  };
}

/** Whether the stream tells of every row that it touches which one that is. */
export function isTracked(relation: Relation): boolean {
  return tableOrder(relation) === "byKey" && isIdentified(relation);
}

/**
 * With REPLICA IDENTITY USING INDEX a DELETE does not hold the primary key, and without a key a row is all
 * its columns, which an UPDATE may leave out: such tables keep the order of the stream. A table without a
 * key and without FULL has inserts only.
 */
export function tableOrder(relation: Relation): TableOrder {
  if (relation.replicaIdentity === "index") return "strict";
  if (relation.key.length > 0) return "byKey";
  return relation.replicaIdentity === "full" ? "strict" : "free";
}
