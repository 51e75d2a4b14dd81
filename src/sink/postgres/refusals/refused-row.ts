// Describes which row of a batch the sink's server has refused, by its key and its position in the stream. No other value of it is reported.

import type { Client } from "pg";
import { type ChangeBatch, ChangeKind, commitLsnOf } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import type { Column, Relation } from "../../../change/relation.ts";
import { tupleColumns } from "../../../change/tuple.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { ofTransaction, rowOf } from "../../../errors/row-in-reason.ts";
import { keyHint } from "./refused-rows.ts";

/** A row that the server has refused. */
export interface RefusedRow {
  readonly relation: Relation;
  readonly commitLsn: Lsn;
  readonly error: MillraceError;
  /** What the open transaction has: the source's transactions before the row's, with so many changes. Null: there is nothing to commit. */
  readonly before: { readonly resumeLsn: Lsn; readonly rows: number } | null;
}

/** Longer values are truncated. */
const shownCharacters = 100;

/** SQLSTATE classes and codes: data, constraint and limit violations, check options, exceptions of triggers, and names in values that do not exist. */
const refusingStates = /^(22|23|44|54|P0|42|3F)/;

/** Whether a row was refused for its values, rather than all rows for something that the server lacks. */
export function isRowRefused(error: unknown): boolean {
  return error instanceof MillraceError && error.code === "sink_rejected_rows" && isRefusal(error);
}

/** As `isRowRefused`, for the server's error of a statement that writes rows. */
export function isRefusal(error: unknown): boolean {
  return refusingStates.test(sqlStateOf(error) ?? "");
}

/** Adds the row's key to `error`, which change `i` caused. If the key cannot be read, the open transaction fails. */
export async function withRow(
  client: Client,
  error: MillraceError,
  batch: ChangeBatch,
  i: number,
): Promise<MillraceError> {
  const key = await keyText(client, batch, i).catch(() => null);
  return withPosition(error, commitLsnOf(batch, i), key === null ? " It is a row without a key" : rowOf(key));
}

/** Adds the position in the stream to `error`, which the transaction with this commit LSN caused. */
export function withPosition(error: MillraceError, commitLsn: Lsn, row = " It is a row"): MillraceError {
  return new MillraceError(
    error.code,
    `${error.message}${row}${ofTransaction(formatLsn(commitLsn))}${keyHint(error.cause, true)}`,
    { cause: error.cause },
  );
}

/** Returns `(a, b)=(1, x)`; null: the table has no key. */
async function keyText(client: Client, batch: ChangeBatch, i: number): Promise<string | null> {
  const relation = batch.relations[batch.relation[i]!]!;
  if (relation.key.length === 0 || batch.kind[i] === ChangeKind.truncate) return null;
  const isGone = batch.kind[i] === ChangeKind.delete;
  const tuple = tupleColumns(batch.arena, isGone ? batch.oldStart[i]! : batch.newStart[i]!);
  const values: (string | null)[] = [];
  for (const index of relation.key) {
    const { start, length } = tuple[index]!;
    const column = relation.columns[index]!;
    if (length < 0) values.push(null);
    else values.push(await valueText(client, batch, column, batch.arena.subarray(start, start + length)));
  }
  return shownKey(
    relation.key.map((index) => relation.columns[index]!.name),
    values,
  );
}

/** Formats `(a, b)=(1, x)`. */
export function shownKey(names: readonly string[], values: readonly (string | null)[]): string {
  const shown = values.map((text) => {
    if (text === null) return "null";
    return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
  });
  return `(${names.join(", ")})=(${shown.join(", ")})`;
}

async function valueText(
  client: Client,
  { form }: ChangeBatch,
  column: Column,
  bytes: Uint8Array,
): Promise<string> {
  return form === "text" ? new TextDecoder().decode(bytes) : await printed(client, column, bytes);
}

/** Asks the server for a value's text: pg sends a Buffer in the type's binary form. The type's name is SQL from the source's server. */
async function printed(client: Client, { typeName }: Column, bytes: Uint8Array): Promise<string> {
  const { rows } = await client.query<{ text: string }>(`select $1::${typeName}::text as text`, [
    Buffer.from(bytes),
  ]);
  return rows[0]?.text ?? "";
}
