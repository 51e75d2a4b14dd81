// What a source makes of a table's rows on their way: hashed columns, a row hash where a table has no key, and system columns. Told for a
// relation, as SQL for its copy, and as a rewriting of tuples for the stream. The decoder and the copy know nothing of what
// is made; another column that the source adds belongs here as well.

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
import { releaseBytes } from "../../../change/release-bytes.ts";
import { tupleColumns } from "../../../change/tuple.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { derivedColumn, hashedColumnSql, hashText } from "./column-hash.ts";
import { hashedColumnsText, RowHasher, rowHashSql } from "./row-hash.ts";
import { type RowOrigin, SystemColumnWriter, withSystemColumns } from "./system-columns.ts";

/**
 * `relation`, of the columns that are carried, as its rows travel. `isKeyless`: nothing tells its rows apart.
 *
 * Throws `column_conflict` when a table that is to get a row hash has a column of that name.
 */
export function renderedRelation(
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
    rendering: `hashed(${JSON.stringify([...hashed].sort())} ${fingerprint(selection.salt)})`,
  };
}

function hashedColumn({ name, number, addedValue }: Column, salt: string): Column {
  const hash =
    addedValue === null ? null : hashText(salt, { bytes: Buffer.from(addedValue), isPacked: false });
  return derivedColumn(name, number, hash && Buffer.from(hash).toString("latin1"));
}

/** Tells one salt from another, and no more. */
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
  const rendering = [relation.rendering, `rows(${hashedColumnsText(relation)})`].filter(Boolean).join(" ");
  return {
    ...relation,
    columns: [...relation.columns, derivedColumn(rowHashColumn, rowHashNumber, null)],
    key: [relation.columns.length],
    isKeyedByHash: true,
    rendering,
  };
}

/**
 * The query of a copy of `relation` as `renderedRelation` has made it; null: its columns as they are. `from`: the table, as FROM
 * takes it. `point`: as of which the copy is made. `saltSetting` must be set in the session.
 */
export function renderedQuery(
  relation: Relation,
  selection: TableSelection,
  from: string,
  point: Lsn,
): string | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = relation.columns.filter(({ number }) => number >= 0);
  const columns = stored.map(({ name }) =>
    hashed.includes(name) ? `${hashedColumnSql(name)} as ${escapeIdentifier(name)}` : escapeIdentifier(name),
  );
  const system = selection.systemColumns.makers.map((maker) => maker.sql(point));
  if (!relation.isKeyedByHash) return `select ${[...columns, ...system].join(", ")} from ${from}`;
  const rows = `select ${columns.join(", ")} from ${from}`;
  const list = [...stored.map(({ name }) => escapeIdentifier(name)), rowHashSql(stored), ...system];
  return `select ${list.join(", ")} from (${rows}) r`;
}

/** Rewrites tuples of the stream, which is in `form`; null where there is nothing to do. */
export function tupleRenderer(
  relation: Relation,
  selection: TableSelection,
  form: TupleForm,
  now: () => number = Date.now,
): TupleRenderer | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = relation.columns.filter(({ number }) => number >= 0);
  const isHashed = stored.map(({ name }) => hashed.includes(name));
  const { systemColumns } = selection;
  return new TupleRenderer(
    isHashed.includes(true) || relation.isKeyedByHash ? isHashed : null,
    selection.salt,
    relation.isKeyedByHash ? new RowHasher(stored) : null,
    systemColumns.columns.length > 0 ? new SystemColumnWriter(systemColumns, form, now) : null,
  );
}

export class TupleRenderer {
  constructor(
    /** Null: values are left as they are. */
    private readonly isHashed: readonly boolean[] | null,
    private readonly salt: string,
    private readonly rowHasher: RowHasher | null,
    private readonly systemColumns: SystemColumnWriter | null,
  ) {}

  /** It makes values of the text forms of others. */
  get needsText(): boolean {
    return this.isHashed !== null;
  }

  /**
   * Puts what is made of the builder's last tuple, from `at` on, in its place. `oldAt`: the whole old row as it was rewritten, which
   * has the values that the new one leaves out; -1: there is none. `origin`: of the row; null: it is the old row of an update.
   */
  rewrite(builder: BatchBuilder, at: number, oldAt: number, origin: RowOrigin | null): void {
    if (this.isHashed !== null) this.#rewriteValues(this.isHashed, builder, at, oldAt);
    this.systemColumns?.append(builder, at, origin);
  }

  #rewriteValues(isHashed: readonly boolean[], builder: BatchBuilder, at: number, oldAt: number): void {
    // Where all values stay as they are, a large row is not copied for the hash behind it.
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

/** A number stands for the length of a value that has no bytes. */
type Value = StoredValue | number;

function valuesOf(tuple: Uint8Array, at: number): readonly Value[] {
  return tupleColumns(tuple, at).map(({ length, start, isPacked }) =>
    length < 0 ? length : { bytes: tuple.subarray(start, start + length), isPacked },
  );
}

/** Null for null; values that the source did not send are the old row's. */
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

/** As it stands in a tuple. */
function lengthOf(value: Value): number {
  if (typeof value === "number") return value;
  return value.isPacked ? value.bytes.length | packedFlag : value.bytes.length;
}

/** Appends a column to the tuple at `at`, which is the builder's last. */
function appendValue(builder: BatchBuilder, at: number, bytes: Uint8Array): void {
  builder.reserve(4 + bytes.length);
  const { arena, arenaEnd } = builder;
  const view = new DataView(arena.buffer, arena.byteOffset);
  view.setInt16(at, view.getUint16(at) + 1);
  view.setInt32(arenaEnd, bytes.length);
  arena.set(bytes, arenaEnd + 4);
  builder.arenaEnd = arenaEnd + 4 + bytes.length;
}
