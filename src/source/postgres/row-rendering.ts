// What a source makes of a table's rows on their way: hashed columns. Told for a relation, as SQL for its copy, and as a
// rewriting of tuples for the stream. The decoder and the copy know nothing of what is made.

import { createHash } from "node:crypto";
import { escapeIdentifier } from "pg";
import type { BatchBuilder } from "../../change/batch-builder.ts";
import { NULL_LENGTH, UNCHANGED_LENGTH } from "../../change/change-batch.ts";
import type { Column, Relation } from "../../change/relation.ts";
import { tupleColumns } from "../../change/tuple.ts";
import { derivedColumn, hashedColumnSql, hashText } from "./column-hash.ts";
import type { TableSelection } from "./table-selection.ts";

/** `relation`, of the columns that are carried, as its rows travel. */
export function renderedRelation(relation: Relation, selection: TableSelection): Relation {
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

/** Tells one salt from another, and no more. */
function fingerprint(salt: string): string {
  return createHash("sha256").update("millrace salt ").update(salt).digest("hex").slice(0, 8);
}

/** Select list of a copy of `relation` as `renderedRelation` has made it. Null: its columns as they are. */
export function renderedColumnsSql(relation: Relation, selection: TableSelection): string | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const columns = relation.columns.map(({ name }) =>
    hashed.includes(name) ? `${hashedColumnSql(name)} as ${escapeIdentifier(name)}` : escapeIdentifier(name),
  );
  return columns.join(", ");
}

/** Rewrites tuples of the stream; null where there is nothing to do. */
export function tupleRenderer(relation: Relation, selection: TableSelection): TupleRenderer | null {
  if (relation.rendering === undefined) return null;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  return new TupleRenderer(
    relation.columns.map(({ name }) => hashed.includes(name)),
    selection.salt,
  );
}

export class TupleRenderer {
  constructor(
    private readonly isHashed: readonly boolean[],
    private readonly salt: string,
  ) {}

  /** Puts what is made of the builder's last tuple, in text form from `at` on, in its place. */
  rewrite(builder: BatchBuilder, at: number): void {
    const plain = builder.arena.slice(at, builder.arenaEnd);
    const values = tupleColumns(plain, 0).map(({ length, start }, i) => {
      if (length === NULL_LENGTH || length === UNCHANGED_LENGTH) return length;
      const text = plain.subarray(start, start + length);
      return this.isHashed[i] ? hashText(this.salt, text) : text;
    });
    builder.arenaEnd = at;
    writeTuple(builder, values);
  }
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
