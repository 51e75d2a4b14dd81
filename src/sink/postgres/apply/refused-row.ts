// Says which row of a batch the sink's server has refused: by its key and its place in the stream, and by nothing else of it.

import type { Client } from "pg";
import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn, lsn } from "../../../change/lsn.ts";
import type { Column, Relation } from "../../../change/relation.ts";
import { tupleColumns } from "../../../change/tuple.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { ofTransaction, rowOf } from "../../../errors/row-in-reason.ts";
import { keyHint } from "../copy/refused-rows.ts";

/** A row that the server does not take as it is. */
export interface RefusedRow {
  readonly relation: Relation;
  readonly commitLsn: Lsn;
  readonly error: MillraceError;
  /** What the transaction holds: as many changes, all that was committed before the row. Null: nothing to be committed. */
  readonly before: { readonly resumeLsn: Lsn; readonly rows: number } | null;
}

/** Longer values are cut. */
const shownCharacters = 100;

/** Data, constraint and limit violations, check options, what a trigger raised, and names in values that the sink does not have. */
const refusingStates = /^(22|23|44|54|P0|42|3F)/;

/** Whether a row was refused for what it holds, and not all of them for what the server lacks. */
export function isRowRefused(error: unknown): boolean {
  return error instanceof MillraceError && error.code === "sink_rejected_rows" && isRefusal(error);
}

/** As `isRowRefused`, by what the server said of a statement that writes rows. */
export function isRefusal(error: unknown): boolean {
  return refusingStates.test(sqlStateOf(error) ?? "");
}

/** `error`, which came of change `i`, with the row's key. Where its key cannot be had, the open transaction fails. */
export async function withRow(
  client: Client,
  error: MillraceError,
  batch: ChangeBatch,
  i: number,
): Promise<MillraceError> {
  const key = await keyText(client, batch, i).catch(() => null);
  return withPlace(error, batch, i, key === null ? " It is a row without a key" : rowOf(key));
}

/** `error`, which came of the transaction of change `i`, with its place in the stream. */
export function withPlace(
  error: MillraceError,
  batch: ChangeBatch,
  i: number,
  row = " It is a row",
): MillraceError {
  const place = formatLsn(lsn(batch.transactions.commitLsn[batch.transaction[i]!]!));
  return new MillraceError(
    error.code,
    `${error.message}${row}${ofTransaction(place)}${keyHint(error.cause, true)}`,
    { cause: error.cause },
  );
}

/** `(a, b)=(1, x)`; null where the table has no key. */
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

/** `(a, b)=(1, x)` */
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

/** A Buffer is sent as the type's binary form. The type's name is SQL, as the source's server wrote it. */
async function printed(client: Client, { typeName }: Column, bytes: Uint8Array): Promise<string> {
  const { rows } = await client.query<{ text: string }>(`select $1::${typeName}::text as text`, [
    Buffer.from(bytes),
  ]);
  return rows[0]?.text ?? "";
}
