// Applies one change by itself, if it cannot be folded into net changes: a change of a table without a key, whose row is found by the whole
// old row, or a row that moves to another key and must be updated, as the source did not send all of its values, or the sink's row has more.

import { type Client, escapeIdentifier } from "pg";
import { type ChangeBatch, ChangeKind, commitLsnOf } from "../../../change/change-batch.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { isSystemColumn, qualifiedName } from "../../../change/relation.ts";
import { isOldWhole, newTuple, type TupleRef, unchangedColumns } from "../../../change/tuple.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { IncompleteRows } from "../bookkeeping/incomplete-rows.ts";
import { recordMove } from "../copy/touch-recorder.ts";
import { copyBody } from "../copy-in/copy-body.ts";
import { RowsMissing } from "../refusals/rows-missing.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import type { MergeSession } from "./merge-session.ts";
import { longValueBytes } from "./net-changes.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { stage } from "./staged-rows.ts";
import {
  deleteSameSql,
  deleteSql,
  findSql,
  inGroups,
  insertSql,
  sameText,
  stageGroup,
  updateSql,
} from "./staging.ts";
import { warnOfReplaced } from "./table-merge.ts";

/** The position of the first row that COPY writes into an empty table. */
const firstRow = "'(0,1)'::pg_catalog.tid";

/** Whether change `i` must be applied by itself. */
export function isSingle(batch: ChangeBatch, i: number, table: PreparedTable): boolean {
  return table.key.length === 0 && batch.kind[i] !== ChangeKind.insert;
}

/** Whether something identifies the row of change `i`. Without a copy it may never have been there. Throws RowsMissing where a copy is wanted. */
export function isIdentified(
  session: MergeSession,
  table: PreparedTable,
  batch: ChangeBatch,
  i: number,
): boolean {
  if (table.key.length > 0 || isOldWhole(batch, i, table.relation)) return true;
  const unidentified = rowUnidentified(table);
  if (table.copy.kind !== "none") throw unidentified;
  session.warn(
    `${unidentified.message} Nothing is copied by itself (skip_snapshots): create a Snapshot task for it.`,
  );
  return false;
}

/**
 * A missing row of a table without a key is a warning. Throws RowsMissing where only a copy can help:
 * - the row is to move to another key, is missing, and the source did not send all of its values;
 * - the stream has not passed the point of a merged copy yet, the copy does not have the row under its new key, and incomplete rows are not
 *   recorded. Under its old key there may be another row of the copy by now, and its values must not stand for those that were not sent.
 */
export async function applySingle(
  session: MergeSession,
  table: PreparedTable,
  batch: ChangeBatch,
  i: number,
): Promise<void> {
  const isWhole = isOldWhole(batch, i, table.relation);
  const old: TupleRef = { bytes: batch.arena, start: batch.oldStart[i]!, end: batch.oldEnd[i]! };
  const body = copyBody(session.form);
  if (table.isWide) body.add(old);
  else body.addGrouped(stageGroup.delete, old);
  if (batch.kind[i] === ChangeKind.delete) {
    await stage(session, table, body);
    const sql = `delete from ${table.ownRows} t where ${found(table, isWhole)}`;
    if ((await session.client.query(sql)).rowCount === 0) rowMissing(session, table);
    return;
  }
  const replacement = newTuple(batch, i, table.key, longValueBytes);
  const keeps = unchangedColumns(replacement.bytes, replacement.start);
  await recordMove(session, table, old, replacement);
  if (table.isWide) body.add(replacement, true);
  else body.addGrouped(stageGroup.update, replacement, true);
  await stage(session, table, body);
  if (session.repeats && table.key.length > 0) {
    session.incomplete?.moves(table.relation.id);
    const known = await knownOf(session, table, commitLsnOf(batch, i));
    if (!known.isNewStreamed && (await applyToMovedRow(session, table, keeps))) return;
    if (session.incomplete === null) throw new RowsMissing();
    if (known.isNewStreamed) await deleteConflicting(session, table, known.isOldThere ? isWhole : null);
    if (!known.isOldThere) return await recordMoved(session.client, session.incomplete, table);
  } else if (session.upserts && table.key.length > 0) await deleteConflicting(session, table, isWhole);
  if (await replaceRow(session, table, keeps, found(table, isWhole))) return;
  if (keeps.length > 0 || table.key.length === 0) return rowMissing(session, table);
  // Somebody may have changed it at the sink.
  if (isWhole && (await replaceRow(session, table, keeps, found(table, false)))) return;
  if (session.upserts) await deleteConflicting(session, table, null);
  await session.client.query(insertSql(table, staged(table).isNew));
}

/** Replaces the row that `row` selects, and returns whether there was one. */
async function replaceRow(
  { client }: MergeSession,
  table: PreparedTable,
  keeps: readonly number[],
  row: string,
): Promise<boolean> {
  const isAnyFixed = table.columns.some(({ isFixed }) => isFixed);
  const replace = isAnyFixed ? [replaceOneSql(table, keeps, row)] : [];
  for (const sql of [...updateOneSql(table, keeps, row), ...replace])
    if ((await client.query(sql)).rowCount === 1) return true;
  return false;
}

/** Updates the one row that `row` selects, unless a GENERATED ALWAYS column of it differs. None: the row has only such columns. */
function updateOneSql(table: PreparedTable, keeps: readonly number[], row: string): readonly string[] {
  const sent = table.columns.flatMap((column, c) => (keeps.includes(c) ? [] : [{ ...column, c }]));
  const set = sent
    .filter(({ isFixed }) => !isFixed)
    .map(({ name, c }) => `${escapeIdentifier(name)} = n.c${c}`);
  const same = sent
    .filter(({ isFixed }) => isFixed)
    .map(({ name, c }) => ` and t.${escapeIdentifier(name)} is not distinct from n.c${c}`);
  if (set.length === 0) return [];
  return [
    `update ${table.ownRows} t set ${set.join(", ")} from pg_temp.${table.staging} n ` +
      `where ${isReplacement(table)} and ${row}${same.join("")}`,
  ];
}

/** Deletes that row and inserts the other. Columns that were not sent, or that somebody has added at the sink, keep their values. */
function replaceOneSql(table: PreparedTable, keeps: readonly number[], row: string): string {
  const kept = (name: string) => `gone.${escapeIdentifier(name)}`;
  const values = table.columns.map(({ name }, c) => (keeps.includes(c) ? kept(name) : `n.c${c}`));
  return (
    `with gone as (delete from ${table.ownRows} t where ${row} returning t.*) ` +
    `insert into ${sqlName(table.target)} (${sqlList([...table.columnNames, ...table.extras])}) overriding system value ` +
    `select ${[...values, ...table.extras.map(kept)].join(", ")} from gone, pg_temp.${table.staging} n where ${isReplacement(table)}`
  );
}

/** The condition that picks the new row among the staged ones, `n`. */
function isReplacement({ isWide }: PreparedTable): string {
  return isWide ? `n.ctid <> ${firstRow}` : `n.g = ${stageGroup.update}`;
}

function rowUnidentified({ target }: PreparedTable): RowsMissing {
  return new RowsMissing(
    `Table ${qualifiedName(target)}: a row was changed under a key that is not known any more, and the source did not send ` +
      "the whole of the old row: only another copy of the table brings them.",
  );
}

/**
 * Deletes another row under the key that a row moves to: the source has no row there. If the moving row is missing, the other stays. If
 * `isWhole` is null, it is deleted in any case: the moving row is copied by key.
 */
async function deleteConflicting(
  session: MergeSession,
  table: PreparedTable,
  isWhole: boolean | null,
): Promise<void> {
  const { isNew } = staged(table);
  const others = isWhole === null ? "" : ` and not (${found(table, isWhole)})`;
  const { rowCount } = await session.client.query(deleteSameSql(table, isNew) + others);
  if (rowCount) warnOfReplaced(session, table, rowCount);
}

interface KnownRows {
  /** The row under the old key is the one that the stream has brought, not a later one of the copy, and it is whole. */
  readonly isOldThere: boolean;
  /** The row under the new key is not from the copy. The source had no row there. */
  readonly isNewStreamed: boolean;
}

/** What is known of both rows before the stream has passed the point of a merged copy. */
async function knownOf(
  { client, incomplete }: MergeSession,
  table: PreparedTable,
  commitLsn: Lsn,
): Promise<KnownRows> {
  const isLoose = table.key.some((c) => table.columns[c]!.indexed?.isLoose !== false);
  if (incomplete === null || isLoose) return { isOldThere: false, isNewStreamed: false };
  const key = table.key.map((c) => `s.c${c}::text`).join(", ");
  const isThere =
    `exists (select from ${table.ownRows} o where ${byKey(table).join(" and ")}) ` +
    `and not ${incomplete.isIncompleteSql(table)}`;
  const { rows } = await client.query<{ key: RowKey; isOld: boolean; isThere: boolean }>(
    `select array[${key}] as key, ${staged(table).isOld} as "isOld", ${isThere} as "isThere" ` +
      `from pg_temp.${table.staging} s`,
  );
  const isStreamed = ({ key }: { key: RowKey }) => !incomplete.ahead.mayHold(table.relation, key, commitLsn);
  return {
    isOldThere: rows.some((row) => row.isOld && row.isThere && isStreamed(row)),
    isNewStreamed: rows.some((row) => !row.isOld && isStreamed(row)),
  };
}

/**
 * A merged copy may have the row under its new key already. Then that row is updated: it has the values that were not sent. The row under the
 * old key is deleted, as it may be another one by now. Both keys may be equal (`1.0` and `1.00`): their texts tell which of them a row has.
 * Returns whether the copy had the row.
 */
async function applyToMovedRow(
  { client }: MergeSession,
  table: PreparedTable,
  keeps: readonly number[],
): Promise<boolean> {
  const { isOld, isNew } = staged(table);
  const hasText = sameText(table, () => true);
  const update = updateSql(table, keeps) ?? ((condition: string) => findSql(table, condition));
  const { rowCount } = await client.query(update(isNew) + hasText);
  if (!rowCount) return false;
  await client.query(deleteSql(table, isOld) + hasText);
  return true;
}

/** Deletes the row under its old key, which may be another row's by now, and records the new key: the row is copied by itself later. */
async function recordMoved(client: Client, incomplete: IncompleteRows, table: PreparedTable): Promise<void> {
  const { isOld, isNew } = staged(table);
  // First: the new key may be equal to the old one, and would count as there.
  await client.query(deleteSql(table, isOld));
  await client.query(incomplete.recordSql(table, isNew));
  incomplete.recorded(table.relation.id);
}

/** The conditions that pick the old row and the new one. */
function staged({ isWide }: PreparedTable): { readonly isOld: string; readonly isNew: string } {
  if (isWide) return { isOld: `s.ctid = ${firstRow}`, isNew: `s.ctid <> ${firstRow}` };
  return { isOld: inGroups([stageGroup.delete]), isNew: inGroups([stageGroup.update]) };
}

/** Selects the one row that matches the staged old row: by its key and, if the source sent all columns, by all of them. */
function found(table: PreparedTable, isWhole: boolean): string {
  const match = [...byKey(table), ...(isWhole ? [byImage(table)] : [])].join(" and ");
  return (
    `(t.tableoid, t.ctid) = (select o.tableoid, o.ctid from ${table.ownRows} o, pg_temp.${table.staging} s ` +
    `where ${table.isWide ? `s.ctid = ${firstRow}` : `s.g = ${stageGroup.delete}`} and ${match} limit 1)`
  );
}

function byKey(table: PreparedTable): string[] {
  return table.key.map((c) => {
    const { name, indexed } = table.columns[c]!;
    return equalSql(indexed, `o.${escapeIdentifier(name)}`, `s.c${c}`);
  });
}

/**
 * Whole rows, byte by byte: not every type has an equality, and not every equality means the same value.
 * https://www.postgresql.org/docs/current/functions-comparisons.html#COMPOSITE-TYPE-COMPARISON
 */
function byImage(table: PreparedTable): string {
  const same = table.relation.columns.flatMap((column, c) => (isSystemColumn(column) ? [] : [c]));
  const stored = same
    .map((c) => table.columns[c]!)
    .map(({ name, plainType, isDomain }) => `o.${escapeIdentifier(name)}${isDomain ? `::${plainType}` : ""}`)
    .join(", ");
  const sent = same.map((c) => `s.c${c}`).join(", ");
  return `pg_catalog.record_image_eq(row(${stored}), row(${sent}))`;
}

function rowMissing(session: MergeSession, table: PreparedTable): void {
  if (table.copy.kind === "none" || session.repeats) return;
  if (table.key.length > 0) {
    // The incremental copy brings the row.
    if (session.touched.willBring(table.relation)) return;
    throw new RowsMissing();
  }
  session.warn(
    `Table ${qualifiedName(table.target)} lacks a row that the source has changed: something else has changed or deleted ` +
      "it. Create a Snapshot task for this table to mend it.",
  );
}
