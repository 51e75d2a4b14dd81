// The shape of a table at one point of the stream, as the source described it.

import type { TypeDefinition } from "./type-definition.ts";

/** A column, in tuple order. */
export interface Column {
  readonly name: string;
  /**
   * The source's number for the column (pg_attribute.attnum). A rename keeps it, and no other column gets it. 0: not
   * known.
   */
  readonly number: number;
  /** OID of the type at the source. A built-in type has the same OID on every server. */
  readonly typeOid: number;
  readonly typmod: number;
  /** Type as `format_type` prints it, schema-qualified unless it is built in: `numeric(10,2)`, `app.mood[]`. */
  readonly typeName: string;
  /**
   * Names the layout of the value in COPY BINARY: a column of the same layout on another server reads the bytes as the
   * same value. Null: the bytes mean something at the source only.
   */
  readonly binaryLayout: string | null;
  /** The separator between the elements of an array's text, where it is not a comma: `;` for box. */
  readonly arrayDelimiter?: string;
  /** Text of the default that all existing rows got when the column was added; null: none, or not known. */
  readonly addedValue: string | null;
  /**
   * The definitions of the type, or of an array's element type, dependencies first; absent: built in, or an
   * extension's.
   */
  readonly typeDefinitions?: readonly TypeDefinition[];
  /** For a domain, or an array of one: the type that its values print as. */
  readonly domainBase?: DomainBase;
  /** The source computes it. COPY takes such a column only from a query. */
  readonly isGenerated?: true;
}

export type DomainBase = Pick<Column, "typeOid" | "typmod" | "typeName" | "arrayDelimiter">;

/** The column with its domain replaced by the base type, for code that looks at values. */
export function withoutDomain(column: Column): Column {
  return column.domainBase ? { ...column, ...column.domainBase } : column;
}

/** The key column that a source adds where it treats equal rows as one: a hash of the row. */
export const rowHashColumn = "_sm_row_hash";

/** Its column number: a table's own columns count from 1. */
export const rowHashNumber = -1;

/** Whether the source added the column to say where a row comes from: its value differs between equal rows. */
export function isSystemColumn({ number }: Column): boolean {
  return number < rowHashNumber;
}

/** What the source sends of the old row with an UPDATE or DELETE. */
export type ReplicaIdentity = "default" | "nothing" | "full" | "index";

/**
 * A relation's shape. The source makes a new object whenever it announces the relation again, so that a row always
 * refers to the shape it was written in. `id` (the table's OID) stays the same.
 */
export interface Relation {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly replicaIdentity: ReplicaIdentity;
  readonly columns: readonly Column[];
  /**
   * Indexes of the columns that identify a row: the primary key, else the replica identity's index; empty: there is
   * none.
   */
  readonly key: readonly number[];
  /**
   * The source's number for the primary key: another key of the same columns has another number. Absent: there is none.
   * Under identity full it is the table's current key, because the stream does not contain one.
   */
  readonly keyId?: number;
  /**
   * How the source transforms rows (which columns are hashed, and how), as an opaque text; absent: not at all. A copy
   * whose rows were transformed otherwise does not count.
   */
  readonly transformation?: string;
  /** Numbers of the table's columns that the source does not send: excluded ones, and most generated ones. */
  readonly withheld: readonly number[];
  /** Numbers of columns that the source sends and the sink leaves out, because other columns have their names there. */
  readonly displaced?: readonly number[];
  /** The table was altered so often since that its column numbers are the likeliest ones, not known ones. */
  readonly isGuess?: true;
  /** The source has dropped the table: these changes are all that will ever come of it. */
  readonly isGone?: true;
  /**
   * The key is a hash of the row, in the last column. Equal rows are one row, so an insert may bring one that exists
   * already.
   */
  readonly isKeyedByHash?: true;
}

/** What the catalog knows of a table beyond its relation: enough to create it at a sink. */
export interface TableShape {
  readonly relation: Relation;
  /** Names of the primary key's columns, in its order; empty without one. */
  readonly primaryKey: readonly string[];
  readonly notNull: readonly string[];
  /** The root of a partitioned table: its rows are in its partitions. */
  readonly isPartitioned: boolean;
  /** From the planner's statistics; 0 where it has none. */
  readonly estimatedRows: number;
  readonly estimatedBytes: number;
  /**
   * Identifies the files of the rows. A rewrite of the table changes it; an older snapshot then sees the table empty.
   */
  readonly storage: string;
  /**
   * Changes when rows came or went without a change event: a copy from before no longer counts. Absent: that never
   * happened.
   */
  readonly contents?: string;
  /** Which of its columns copies and changes contain; absent: all, including columns that are added later. */
  readonly coverage?: Coverage;
  /** The key has hashes of values: no index of the source finds a row by them, and it looks at all rows. Absent: it has none. */
  readonly isKeyHashed?: true;
  /** Generated columns that the source does not send, because the sink computes them itself; absent: none. */
  readonly generated?: readonly GeneratedColumn[];
}

/** A generated column, with what a sink must have too so that it can compute the same values. */
export interface GeneratedColumn {
  readonly column: Column;
  /** As `pg_get_expr` prints it with an empty search_path. */
  readonly expression: string;
  /** It is computed when it is read; otherwise it is stored. */
  readonly isVirtual: boolean;
  /** The columns that the expression reads. */
  readonly uses: readonly UsedColumn[];
  /** Their numbers as the expression reads them: in its order, and one that it reads twice is there twice. */
  readonly reads: readonly number[];
  /** Functions of users that the expression calls. */
  readonly functions: readonly UsedFunction[];
  /** The database's rules for text, where the expression handles text by them; null: it does not. */
  readonly locale: string | null;
}

export interface UsedColumn {
  /** As `Column.number`. */
  readonly number: number;
  /** The rules by which the server compares and converts its text; null: its type has no collation. */
  readonly locale: string | null;
}

export interface UsedFunction {
  /** As `regprocedure` prints it: `app.total(integer)`. */
  readonly signature: string;
  /** As `pg_get_functiondef` prints it. */
  readonly definition: string;
}

export interface Coverage {
  /** Columns of the table that the connector excludes. */
  readonly excluded: readonly string[];
  /** The source sends listed columns only: a column that is added to the table is missing until it is listed too. */
  readonly isListed: boolean;
  /** The source does not publish the table's changes at the moment: what a sink has of it may lack some. */
  readonly isUnpublished: boolean;
  /** The sink's copy of the table has ceased to count: only another one brings what it lacks. */
  readonly isVoid?: true;
}

/** The table, marked as one whose copy is void. */
export function withVoidCopy(table: TableShape): TableShape {
  const none = { excluded: [], isListed: false, isUnpublished: false };
  return { ...table, coverage: { ...none, ...table.coverage, isVoid: true } };
}

/**
 * `schema.table`, with quotes around a name that needs them in SQL. For people, and as a key: no two tables share it.
 * Not for use in SQL.
 */
export function qualifiedName(relation: { readonly schema: string; readonly name: string }): string {
  return `${quotedIfOdd(relation.schema)}.${quotedIfOdd(relation.name)}`;
}

function quotedIfOdd(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** In the columns' order. */
export function columnNames({ columns }: Pick<Relation, "columns">): readonly string[] {
  return columns.map(({ name }) => name);
}

/** The key's columns, in its order. */
export function keyNames({ key, columns }: Pick<Relation, "key" | "columns">): readonly string[] {
  return key.map((i) => columns[i]!.name);
}

/** Whether updates and deletes of the table's rows can be carried, and not inserts alone. */
export function isIdentified({ replicaIdentity, key, isKeyedByHash }: Relation): boolean {
  return replicaIdentity === "full" || (replicaIdentity !== "nothing" && key.length > 0 && !isKeyedByHash);
}

/** Whether the stream tells of each change, by columns of the table, which row it is of. */
export function isKeyed(relation: Relation): boolean {
  return isIdentified(relation) && relation.key.length > 0 && relation.isKeyedByHash !== true;
}

/**
 * Identifies what a copy is a copy of. It changes when another table takes the name; when the source begins to send
 * updates of a table that had inserts only (the copy has missed some); and when the source transforms rows in another
 * way.
 */
export function copyIdentity(relation: Relation): string {
  const transformation = relation.transformation === undefined ? "" : ` ${relation.transformation}`;
  return `${relation.id}${isIdentified(relation) ? "" : " inserts"}${transformation}`;
}

/** Whether the identity is that of a copy of this table, in whatever shape. */
export function isCopyOfTable(identity: string, relation: Relation): boolean {
  return /^\d+/.exec(identity)?.[0] === String(relation.id);
}
