// The shape of a table at one moment of the stream, as the source described it.

import type { TypeDefinition } from "./type-definition.ts";

/** One column, in the order of the tuple. */
export interface Column {
  readonly name: string;
  /** The source's own number for the column: it stays when the column is renamed, and no other gets it. 0: not known. */
  readonly number: number;
  /** OID of the type at the source. That of a built-in type is the same on every server. */
  readonly typeOid: number;
  readonly typmod: number;
  /** Type as `format_type` prints it, schema-qualified when it is not built in: `numeric(10,2)`, `app.mood[]`. */
  readonly typeName: string;
  /**
   * How the value lies in COPY BINARY: a column of the same layout on another server reads the bytes as the same value.
   * Null: the bytes mean something at the source only.
   */
  readonly binaryLayout: string | null;
  /** What stands between the elements of an array's text, where that is no comma: `;` of box. */
  readonly arrayDelimiter?: string;
  /** Text of the value that all rows got when the column was added; null: none, or not known. */
  readonly addedValue: string | null;
  /** How the type, or the element type of an array, was made, behind what it is made of; absent: it is built in, or an extension's. */
  readonly typeDefinitions?: readonly TypeDefinition[];
  /** Of a domain, and of an array of one: the type that its values print as. */
  readonly domainBase?: DomainBase;
}

export type DomainBase = Pick<Column, "typeOid" | "typmod" | "typeName" | "arrayDelimiter">;

/** The column as one of the type under its domain, for those who look at values. */
export function withoutDomain(column: Column): Column {
  return column.domainBase ? { ...column, ...column.domainBase } : column;
}

/** The column that a source adds where equal rows are one: it holds the row's hash, and is the key. */
export const rowHashColumn = "_sm_row_hash";

/** Its number: a table's own columns count from 1. */
export const rowHashNumber = -1;

/** Whether a source has added the column to say where a row comes from: it differs between rows that are the same. */
export function isSystemColumn({ number }: Column): boolean {
  return number < rowHashNumber;
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
  /**
   * The source's own number for the primary key: another key of the same columns has another. Absent: there is none. Under
   * identity full it is the key that the table has by now, since the stream does not tell.
   */
  readonly keyId?: number;
  /**
   * What the source makes of the rows on their way (which columns are hashed, and how), as an opaque text; absent: nothing.
   * Rows that were made in another way are not the same rows.
   */
  readonly rendering?: string;
  /** Numbers of the table's columns that do not travel: excluded, or generated. */
  readonly withheld: readonly number[];
  /** Those of them that travel, and that a sink leaves out because others have their names there. */
  readonly displaced?: readonly number[];
  /** The table was altered so often since that its columns' numbers are the likeliest, and not known. */
  readonly isGuess?: true;
  /** The source no longer has the table: nothing can be had of it but these changes. */
  readonly isGone?: true;
  /** The key is a hash of the row's values, its last column: equal rows are one, and an insert may bring one that is there. */
  readonly isKeyedByHash?: true;
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
  /** Names the files that hold the rows. Changes when the table is rewritten: a snapshot from before sees it empty then. */
  readonly storage: string;
  /** Another when rows came to the table or left it and no change told: a copy from before is none any more. Absent: never. */
  readonly contents?: string;
  /** Which of its columns copies and changes have; absent: all of them, also those that come later. */
  readonly coverage?: Coverage;
}

export interface Coverage {
  /** Columns that the table has and the connector leaves out. */
  readonly excluded: readonly string[];
  /** The source sends listed columns alone: one that is added to the table is missing from its rows until it is listed too. */
  readonly isListed: boolean;
  /** The source does not send its changes at the moment: whatever a sink holds of it may have missed some. */
  readonly isUnpublished: boolean;
}

/**
 * `schema.table`, with quotes around a name that needs them in SQL: for people, and as a key, as no two tables share it.
 * Not to be put into SQL.
 */
export function qualifiedName(relation: { readonly schema: string; readonly name: string }): string {
  return `${quotedIfOdd(relation.schema)}.${quotedIfOdd(relation.name)}`;
}

function quotedIfOdd(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Whether updates and deletes of the table's rows can be told, and not inserts alone. */
export function isIdentified({ replicaIdentity, key, isKeyedByHash }: Relation): boolean {
  return replicaIdentity === "full" || (replicaIdentity !== "nothing" && key.length > 0 && !isKeyedByHash);
}

/**
 * What a copy is a copy of. It changes when another table takes the name, when updates begin to be carried of a table that
 * only inserts were carried of (then the copy has missed some), and when the source makes other rows of the table's.
 */
export function copyIdentity(relation: Relation): string {
  const rendering = relation.rendering === undefined ? "" : ` ${relation.rendering}`;
  return `${relation.id}${isIdentified(relation) ? "" : " inserts"}${rendering}`;
}

/** Whether a copy was one of this table, in whatever shape. */
export function isCopyOfTable(identity: string, relation: Relation): boolean {
  return /^\d+/.exec(identity)?.[0] === String(relation.id);
}
