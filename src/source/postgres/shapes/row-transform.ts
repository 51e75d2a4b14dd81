// Transforms a table's rows: hashed columns, a row hash where a table has no key, and system columns. It gives the
// transformed relation, the SQL for its copy, and the transformer of tuples for the stream. The decoder and the copy do
// not know what is transformed.

import { createHash } from "node:crypto";
import { escapeIdentifier } from "pg";
import type { BatchBuilder } from "../../../change/batch-builder.ts";
import { type TupleForm, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { packedFlag, type StoredValue } from "../../../change/packed-hex.ts";
import {
  type Column,
  qualifiedName,
  type Relation,
  rowHashColumn,
  rowHashNumber,
} from "../../../change/relation.ts";
import { tupleColumns } from "../../../change/tuple.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { releaseBytes } from "../../../memory/release-bytes.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { derivedColumn, hashedColumnSql, hashText } from "./column-hash.ts";
import { hashedColumnsText, RowHasher, rowHashSql } from "./row-hash.ts";
import { type RowOrigin, SystemColumnWriter, withSystemColumns } from "./system-columns.ts";

/**
 * `relation`, which has the selected columns, as its rows are sent. `isKeyless`: nothing identifies its rows.
 *
 * Throws `column_conflict` when a table that needs a row hash has a column of that name.
 */
export function transformedRelation(
  relation: Relation,
  selection: TableSelection,
  isKeyless: boolean,
): Relation {
  const hashed = withHashedColumns(relation, selection);
  const keyed = isKeyless && selection.hashesKeylessRows ? withRowHash(hashed) : hashed;
  return withSystemColumns(keyed, selection.systemColumns);
}

function withHashedColumns(relation: Relation, selection: TableSelection): Relation {
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  if (hashed.length === 0) return relation;
  return {
    ...relation,
    columns: relation.columns.map((column) =>
      hashed.includes(column.name) ? hashedColumn(column, selection.salt) : column,
    ),
    transformation: `hashed(${JSON.stringify([...hashed].sort())} ${fingerprint(selection.salt)})`,
  };
}

function hashedColumn({ name, number, addedValue }: Column, salt: string): Column {
  const hash =
    addedValue === null ? null : hashText(salt, { bytes: Buffer.from(addedValue), isPacked: false });
  return derivedColumn(name, number, hash && Buffer.from(hash).toString("latin1"));
}

/** Distinguishes salts without revealing them. */
function fingerprint(salt: string): string {
  return createHash("sha256").update("millrace salt ").update(salt).digest("hex").slice(0, 32);
}

function withRowHash(relation: Relation): Relation {
  if (relation.columns.some(({ name }) => name === rowHashColumn)) {
    throw new MillraceError(
      "column_conflict",
      `Table ${qualifiedName(relation)} has no key, and a column ${rowHashColumn}, which is the name of the row hash that would ` +
        "stand for one: give the table a primary key, exclude the column, or take keyless_table_strategy append_only.",
    );
  }
  const transformation = [relation.transformation, `rows(${hashedColumnsText(relation)})`]
    .filter(Boolean)
    .join(" ");
  return {
    ...relation,
    columns: [...relation.columns, derivedColumn(rowHashColumn, rowHashNumber, null)],
    key: [relation.columns.length],
    isKeyedByHash: true,
    transformation,
  };
}

/**
 * The query for a copy of `relation`, a result of `transformedRelation`; null: copy its columns as they are. `from`:
 * the table, in the syntax of FROM. `point`: the LSN of the copy. The session must have set `saltSetting`.
 */
export function transformedQuery(
  relation: Relation,
  selection: TableSelection,
  from: string,
  point: Lsn,
): string | null {
  if (relation.transformation === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = relation.columns.filter(({ number }) => number >= 0);
  const columns = stored.map(({ name }) =>
    hashed.includes(name) ? `${hashedColumnSql(name)} as ${escapeIdentifier(name)}` : escapeIdentifier(name),
  );
  const system = selection.systemColumns.generators.map((generator) => generator.sql(point));
  if (!relation.isKeyedByHash) return `select ${[...columns, ...system].join(", ")} from ${from}`;
  const rows = `select ${columns.join(", ")} from ${from}`;
  const list = [...stored.map(({ name }) => escapeIdentifier(name)), rowHashSql(stored), ...system];
  return `select ${list.join(", ")} from (${rows}) r`;
}

/** Transforms tuples of a stream in `form`; null: there is nothing to transform. */
export function tupleTransformer(
  relation: Relation,
  selection: TableSelection,
  form: TupleForm,
  now: () => number = Date.now,
): TupleTransformer | null {
  if (relation.transformation === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = relation.columns.filter(({ number }) => number >= 0);
  const isHashed = stored.map(({ name }) => hashed.includes(name));
  const { systemColumns } = selection;
  return new TupleTransformer(
    isHashed.includes(true) || relation.isKeyedByHash ? isHashed : null,
    selection.salt,
    relation.isKeyedByHash ? new RowHasher(stored) : null,
    systemColumns.columns.length > 0 ? new SystemColumnWriter(systemColumns, form, now) : null,
  );
}

export class TupleTransformer {
  constructor(
    /** Which columns are hashed; null: no value depends on the text of others. */
    private readonly isHashed: readonly boolean[] | null,
    private readonly salt: string,
    private readonly rowHasher: RowHasher | null,
    private readonly systemColumns: SystemColumnWriter | null,
  ) {}

  /** It computes values from the text of others. */
  get needsText(): boolean {
    return this.isHashed !== null;
  }

  /**
   * Replaces the builder's last tuple, which begins at `at`, by the transformed one. `oldAt`: the transformed old row,
   * which has the values that the new one leaves out; -1: there is none. `origin` null: the tuple is an update's old
   * row.
   */
  rewrite(builder: BatchBuilder, at: number, oldAt: number, origin: RowOrigin | null): void {
    if (this.isHashed !== null) this.#rewriteValues(this.isHashed, builder, at, oldAt);
    this.systemColumns?.append(builder, at, origin);
  }

  #rewriteValues(isHashed: readonly boolean[], builder: BatchBuilder, at: number, oldAt: number): void {
    // Where no value is replaced, a large row need not be copied to append its hash.
    const isCopied = isHashed.includes(true);
    const source = isCopied ? builder.arena.slice(at, builder.arenaEnd) : builder.arena;
    const values = valuesOf(source, isCopied ? 0 : at).map((value, i) =>
      isHashed[i] && typeof value !== "number"
        ? { bytes: hashText(this.salt, value), isPacked: false }
        : value,
    );
    const rowHash = this.rowHasher?.hash(wholeRow(values, builder.arena, oldAt)) ?? null;
    if (isCopied) {
      builder.arenaEnd = at;
      writeTuple(builder, values);
      releaseBytes(source);
    }
    if (rowHash) appendValue(builder, at, rowHash);
  }
}

/** A number is the tuple's length field of a value without bytes. */
type Value = StoredValue | number;

function valuesOf(tuple: Uint8Array, at: number): readonly Value[] {
  return tupleColumns(tuple, at).map(({ length, start, isPacked }) =>
    length < 0 ? length : { bytes: tuple.subarray(start, start + length), isPacked },
  );
}

/** Null for null. Values that the source did not send are taken from the old row. */
function wholeRow(
  values: readonly Value[],
  arena: Uint8Array,
  oldAt: number,
): readonly (StoredValue | null)[] {
  const old = values.includes(UNCHANGED_LENGTH) && oldAt >= 0 ? valuesOf(arena, oldAt) : [];
  return values.map((value, i) => {
    if (typeof value !== "number") return value;
    if (value !== UNCHANGED_LENGTH) return null;
    const before = old[i];
    if (before === undefined)
      throw new MillraceError("protocol_violation", "pgoutput: a row without a key came in part");
    return typeof before === "number" ? null : before;
  });
}

/** Appends a tuple. */
function writeTuple(builder: BatchBuilder, values: readonly Value[]): void {
  const sizes = values.map((value) => 4 + (typeof value === "number" ? 0 : value.bytes.length));
  builder.reserve(sizes.reduce((sum, size) => sum + size, 2));
  const { arena } = builder;
  const view = new DataView(arena.buffer, arena.byteOffset);
  let write = builder.arenaEnd;
  view.setInt16(write, values.length);
  write += 2;
  for (const value of values) {
    view.setInt32(write, lengthOf(value));
    write += 4;
    if (typeof value === "number") continue;
    arena.set(value.bytes, write);
    write += value.bytes.length;
  }
  builder.arenaEnd = write;
}

/** The length field in a tuple. */
function lengthOf(value: Value): number {
  if (typeof value === "number") return value;
  return value.isPacked ? value.bytes.length | packedFlag : value.bytes.length;
}

/** Appends a column to the builder's last tuple, which begins at `at`. */
function appendValue(builder: BatchBuilder, at: number, bytes: Uint8Array): void {
  builder.reserve(4 + bytes.length);
  const { arena, arenaEnd } = builder;
  const view = new DataView(arena.buffer, arena.byteOffset);
  view.setInt16(at, view.getUint16(at) + 1);
  view.setInt32(arenaEnd, bytes.length);
  arena.set(bytes, arenaEnd + 4);
  builder.arenaEnd = arenaEnd + 4 + bytes.length;
}
