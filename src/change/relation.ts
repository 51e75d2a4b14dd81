// The shape of a table at one moment of the stream, as the source described it.

/** One column, in the order of the tuple. */
export interface Column {
  readonly name: string;
  /** OID of the type at the source. Below 16384 it means the same on every server. */
  readonly typeOid: number;
  readonly typmod: number;
  /** Type as `format_type` prints it, schema-qualified when it is not built in: `numeric(10,2)`, `app.mood[]`. */
  readonly typeName: string;
  /** The value's bytes mean the same on another server: COPY BINARY may carry them. */
  readonly binarySafe: boolean;
}

/** What Postgres sends of the old row with an UPDATE or DELETE. */
export type ReplicaIdentity = "default" | "nothing" | "full" | "index";

/**
 * A relation's shape. A new object is made whenever the source announces the relation anew, so that a row
 * always goes with the shape it was written in; `id` (the table's OID) stays the same.
 */
export interface Relation {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly replicaIdentity: ReplicaIdentity;
  readonly columns: readonly Column[];
  /** Indexes of the columns that identify a row: the primary key, else the replica identity's index; or none. */
  readonly key: readonly number[];
}

/** What the catalog knows of a table beyond its relation's shape: enough to make it anew at a sink. */
export interface TableShape {
  readonly relation: Relation;
  /** Column names, in the primary key's order; empty without one. */
  readonly primaryKey: readonly string[];
  readonly notNull: readonly string[];
  /** A partitioned table's root: its rows are in its partitions. */
  readonly isPartitioned: boolean;
  /** From the planner's statistics; 0 when it has none. */
  readonly estimatedRows: number;
  readonly estimatedBytes: number;
}

/** `schema.table` for people: logs, reasons, progress. Not SQL: quote identifiers for that. */
export function qualifiedName(relation: { readonly schema: string; readonly name: string }): string {
  return `${relation.schema}.${relation.name}`;
}
