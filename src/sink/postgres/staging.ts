// The staging table of one target table: a temporary table that takes a batch's rows by COPY, from which they are
// merged set-wise. Column `g` says what is to become of a row; `c0`, `c1`, … are the relation's columns.

import { escapeIdentifier } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import { binaryHeader, binaryTrailer } from "./copy-in.ts";
import type { TupleRef } from "./net-changes.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { sqlList, sqlName } from "./target-name.ts";

/** Values of `g`; from 1 on: updates that leave some columns as they are, one number for each set of columns. */
export const stageGroup = { insert: -2, delete: -1, update: 0 } as const;

const chunkBytes = 256 * 1024;
/** Most batches are small. */
const firstChunkBytes = 8 * 1024;

/** Collects tuples as the body of a COPY BINARY, with or without a group before the columns. */
export class CopyBody {
  rows = 0;
  readonly #chunks: Uint8Array[] = [binaryHeader];
  #chunk = new Uint8Array(firstChunkBytes);
  #end = 0;

  /** A tuple as it lies. */
  add(tuple: TupleRef): void {
    this.rows++;
    this.#append(tuple.bytes, tuple.start, tuple.end);
  }

  /** A tuple behind a column of its own: an int4. */
  addGrouped(group: number, tuple: TupleRef): void {
    this.rows++;
    const { bytes, start, end } = tuple;
    this.#reserve(10);
    const columns = ((bytes[start]! << 8) | bytes[start + 1]!) + 1;
    const chunk = this.#chunk;
    let at = this.#end;
    chunk[at++] = columns >> 8;
    chunk[at++] = columns & 0xff;
    chunk[at++] = 0;
    chunk[at++] = 0;
    chunk[at++] = 0;
    chunk[at++] = 4;
    chunk[at++] = group >>> 24;
    chunk[at++] = (group >>> 16) & 0xff;
    chunk[at++] = (group >>> 8) & 0xff;
    chunk[at++] = group & 0xff;
    this.#end = at;
    this.#append(bytes, start + 2, end);
  }

  /** Runs of tuples that lie together go as they are; many small ones are gathered first. */
  addRun(run: TupleRef, rows: number): void {
    this.rows += rows;
    if (run.end - run.start < chunkBytes / 4) {
      this.#append(run.bytes, run.start, run.end);
      return;
    }
    this.#flush();
    this.#chunks.push(run.bytes.subarray(run.start, run.end));
  }

  chunks(): readonly Uint8Array[] {
    this.#flush();
    return [...this.#chunks, binaryTrailer];
  }

  #append(bytes: Uint8Array, start: number, end: number): void {
    const length = end - start;
    this.#reserve(length);
    const chunk = this.#chunk;
    let at = this.#end;
    if (length <= 64) for (let read = start; read < end; ) chunk[at++] = bytes[read++]!;
    else chunk.set(bytes.subarray(start, end), at);
    this.#end += length;
  }

  #reserve(length: number): void {
    if (this.#end + length <= this.#chunk.length) return;
    this.#flush();
    if (length > this.#chunk.length) this.#chunk = new Uint8Array(Math.max(length, chunkBytes));
  }

  #flush(): void {
    if (this.#end === 0) return;
    this.#chunks.push(this.#chunk.subarray(0, this.#end));
    this.#chunk = new Uint8Array(chunkBytes);
    this.#end = 0;
  }
}

/** Typed as the target is; for the text form every column is text, and the merge casts. */
export function createStagingSql(table: PreparedTable, form: TupleForm): string {
  const columns = table.columns.map((column, i) => `c${i} ${form === "text" ? "text" : column.typeName}`);
  return `create temporary table ${table.staging} (${["g int4", ...columns].join(", ")}) on commit delete rows`;
}

export function copyToStagingSql(table: PreparedTable): string {
  return `copy pg_temp.${table.staging} from stdin (format binary)`;
}

export function copyToTargetSql(table: PreparedTable): string {
  return `copy ${sqlName(table.target)} (${sqlList(table.columnNames)}) from stdin (format binary)`;
}

/** Rows whose keys are staged in one of these groups are deleted. */
export function deleteSql(table: PreparedTable, form: TupleForm, groups: readonly number[]): string {
  return (
    `delete from ${sqlName(table.target)} t using pg_temp.${table.staging} s ` +
    `where s.g in (${groups.join(", ")}) and ${keyMatch(table, form)}`
  );
}

/** Rows staged in `group` replace those of the same key, but for the key and the `unchanged` columns. Null: nothing to set. */
export function updateSql(
  table: PreparedTable,
  form: TupleForm,
  group: number,
  unchanged: readonly number[],
): string | null {
  const set = table.columns.flatMap((column, i) =>
    table.key.includes(i) || unchanged.includes(i)
      ? []
      : [`${escapeIdentifier(column.name)} = ${staged(table, form, i)}`],
  );
  if (set.length === 0) return null;
  return (
    `update ${sqlName(table.target)} t set ${set.join(", ")} from pg_temp.${table.staging} s ` +
    `where s.g = ${group} and ${keyMatch(table, form)}`
  );
}

/** Rows staged in these groups are inserted; with `ifMissing`, those whose key is not there. */
export function insertSql(
  table: PreparedTable,
  form: TupleForm,
  groups: readonly number[],
  ifMissing = false,
): string {
  const values = table.columns.map((_, i) => staged(table, form, i)).join(", ");
  const missing = ifMissing
    ? ` and not exists (select from ${sqlName(table.target)} t where ${keyMatch(table, form)})`
    : "";
  return (
    `insert into ${sqlName(table.target)} (${sqlList(table.columnNames)}) overriding system value ` +
    `select ${values} from pg_temp.${table.staging} s where s.g in (${groups.join(", ")})${missing}`
  );
}

function keyMatch(table: PreparedTable, form: TupleForm): string {
  return table.key
    .map((i) => `t.${escapeIdentifier(table.columns[i]!.name)} = ${staged(table, form, i)}`)
    .join(" and ");
}

/** A staged column as a value of the target's type. */
export function staged(table: PreparedTable, form: TupleForm, i: number, alias = "s"): string {
  return form === "text" ? `${alias}.c${i}::${table.columns[i]!.typeName}` : `${alias}.c${i}`;
}
