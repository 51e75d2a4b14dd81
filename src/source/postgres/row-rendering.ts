// What a source makes of a table's rows on their way: hashed columns, and a row hash where a table has no key. Told for a
// relation, as SQL for its copy, and as a rewriting of tuples for the stream. The decoder and the copy know nothing of what
// is made; another column that the source adds belongs here as well.

import { createHash } from "node:crypto";
import { escapeIdentifier } from "pg";
import type { BatchBuilder } from "../../change/batch-builder.ts";
import { UNCHANGED_LENGTH } from "../../change/change-batch.ts";
import { type Column, qualifiedName, type Relation, rowHashColumn } from "../../change/relation.ts";
import { tupleColumns } from "../../change/tuple.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { derivedColumn, hashedColumnSql, hashText } from "./column-hash.ts";
import { hashedColumnsText, RowHasher, rowHashSql } from "./row-hash.ts";
import type { TableSelection } from "./table-selection.ts";

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
  return isKeyless && selection.hashesKeylessRows ? withRowHash(hashed) : hashed;
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
  const hash = addedValue === null ? null : hashText(salt, Buffer.from(addedValue));
  return derivedColumn(name, number, hash && Buffer.from(hash).toString("latin1"));
}

/** Not one of the table's own, which count from 1. */
const rowHashNumber = -1;

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
 * takes it. `saltSetting` must be set in the session.
 */
export function renderedQuery(relation: Relation, selection: TableSelection, from: string): string | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = relation.isKeyedByHash ? relation.columns.slice(0, -1) : relation.columns;
  const columns = stored.map(({ name }) =>
    hashed.includes(name) ? `${hashedColumnSql(name)} as ${escapeIdentifier(name)}` : escapeIdentifier(name),
  );
  const rows = `select ${columns.join(", ")} from ${from}`;
  if (!relation.isKeyedByHash) return rows;
  const list = [...stored.map(({ name }) => escapeIdentifier(name)), rowHashSql(stored)];
  return `select ${list.join(", ")} from (${rows}) r`;
}

/** Rewrites tuples of the stream; null where there is nothing to do. */
export function tupleRenderer(relation: Relation, selection: TableSelection): TupleRenderer | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  return new TupleRenderer(
    relation.columns.map(({ name }) => hashed.includes(name)),
    selection.salt,
    relation.isKeyedByHash ? new RowHasher(relation.columns.slice(0, -1)) : null,
  );
}

export class TupleRenderer {
  constructor(
    private readonly isHashed: readonly boolean[],
    private readonly salt: string,
    private readonly rowHasher: RowHasher | null,
  ) {}

  /**
   * Puts what is made of the builder's last tuple, in text form from `at` on, in its place. `oldAt`: the whole old row as it
   * was rewritten, which has the values that the new one leaves out; -1: there is none.
   */
  rewrite(builder: BatchBuilder, at: number, oldAt = -1): void {
    const plain = builder.arena.slice(at, builder.arenaEnd);
    const values = tupleColumns(plain, 0).map(({ length, start }, i) => {
      if (length < 0) return length;
      const text = plain.subarray(start, start + length);
      return this.isHashed[i] ? hashText(this.salt, text) : text;
    });
    if (this.rowHasher) values.push(this.rowHasher.hash(wholeRow(values, builder.arena, oldAt)));
    builder.arenaEnd = at;
    writeTuple(builder, values);
  }
}

/** Null for null; values that the source did not send are the old row's. */
function wholeRow(
  values: readonly (Uint8Array | number)[],
  arena: Uint8Array,
  oldAt: number,
): readonly (Uint8Array | null)[] {
  const old = values.includes(UNCHANGED_LENGTH) && oldAt >= 0 ? tupleColumns(arena, oldAt) : [];
  return values.map((value, i) => {
    if (typeof value !== "number") return value;
    if (value !== UNCHANGED_LENGTH) return null;
    const column = old[i];
    if (!column) throw new MillraceError("protocol_violation", "pgoutput: a row without a key came in part");
    return column.length < 0 ? null : arena.subarray(column.start, column.start + column.length);
  });
}

/** Appends a tuple; a number stands for the length of a value that has no bytes. */
function writeTuple(builder: BatchBuilder, values: readonly (Uint8Array | number)[]): void {
  const sizes = values.map((value) => 4 + (typeof value === "number" ? 0 : value.length));
  builder.reserve(sizes.reduce((sum, size) => sum + size, 2));
  const { arena } = builder;
  const view = new DataView(arena.buffer, arena.byteOffset);
  let write = builder.arenaEnd;
  view.setInt16(write, values.length);
  write += 2;
  for (const value of values) {
    const isBytes = typeof value !== "number";
    view.setInt32(write, isBytes ? value.length : value);
    write += 4;
    if (!isBytes) continue;
    arena.set(value, write);
    write += value.length;
  }
  builder.arenaEnd = write;
}
