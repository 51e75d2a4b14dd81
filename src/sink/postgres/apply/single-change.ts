// Applies one change by itself, for the few that cannot be folded into a batch: changes of rows without a key, which are
// found by their whole old row, and rows that move to another key while the source did not send all of their values.

import { type Client, escapeIdentifier } from "pg";
import { type ChangeBatch, ChangeFlag, ChangeKind } from "../../../change/change-batch.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { isSystemColumn, qualifiedName } from "../../../change/relation.ts";
import { newTuple, type TupleRef, unchangedColumns } from "../../../change/tuple.ts";
import type { OwedRowNotes } from "../copy/owed-rows.ts";
import { noteMove } from "../copy/touch-notes.ts";
import { equalSql } from "../schema/target-table.ts";
import { copyBody } from "./copy-body.ts";
import type { MergeSession } from "./merge-session.ts";
import { longValueBytes } from "./net-changes.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { RowsMissing } from "./rows-missing.ts";
import { stage } from "./staged-rows.ts";
import { deleteSameSql, deleteSql, findSql, inGroups, stageGroup, updateSql } from "./staging.ts";
import { warnOfReplaced } from "./table-merge.ts";

/** Where the first row lies that is copied into an empty table. */
const firstRow = "'(0,1)'::pg_catalog.tid";

/** Whether change `i` of a table has to be applied by itself, whatever the batch holds. */
export function isSingle(batch: ChangeBatch, i: number, table: PreparedTable): boolean {
  return table.key.length === 0 && batch.kind[i] !== ChangeKind.insert;
}

/**
 * A row without a key that is not there is reported as a warning. Throws RowsMissing for one that moves and is not there; for one that moves while a merged copy is caught up with,
 * and that the copy does not have where it moves to, unless it is owed then: what is under its old key may be another row of the copy's by now, whose
 * values would stand for those that were not sent, unless it is known to be no row of the copy; and for one that nothing tells from others.
 */
export async function applySingle(
  session: MergeSession,
  table: PreparedTable,
  batch: ChangeBatch,
  i: number,
): Promise<void> {
  const hasOld = batch.oldEnd[i]! > batch.oldStart[i]!;
  const isOldWhole = hasOld && (batch.flags[i]! & ChangeFlag.oldIsKey) === 0;
  if (table.key.length === 0 && !isOldWhole) throw rowUnknown(table);
  const old: TupleRef = { bytes: batch.arena, start: batch.oldStart[i]!, end: batch.oldEnd[i]! };
  const body = copyBody(session.form);
  if (table.isWide) body.add(old);
  else body.addGrouped(stageGroup.delete, old);
  if (batch.kind[i] === ChangeKind.delete) {
    await stage(session, table, body);
    await run(session, table, `delete from ${table.ownRows} t where ${found(table, isOldWhole)}`);
    return;
  }
  const replacement = newTuple(batch, i, table.key, longValueBytes);
  const keeps = unchangedColumns(replacement.bytes, replacement.start);
  await noteMove(session, table, old, replacement);
  if (table.isWide) body.add(replacement, true);
  else body.addGrouped(stageGroup.update, replacement, true);
  await stage(session, table, body);
  if (session.repeats && table.key.length > 0) {
    const commitLsn = lsn(batch.transactions.commitLsn[batch.transaction[i]!]!);
    const known = await knownOf(session, table, commitLsn);
    if (!known.isNewStreamed && (await isMovedAlready(session, table, keeps))) return;
    if (session.owed === null) throw new RowsMissing();
    if (known.isNewStreamed) await giveWay(session, table, known.isOldThere ? isOldWhole : null);
    if (!known.isOldThere) return await oweMoved(session.client, session.owed, table);
  } else if (session.careful && table.key.length > 0) await giveWay(session, table, isOldWhole);
  const set = table.columns
    .map((column, c) => ({ column, c }))
    .filter(({ c }) => !keeps.includes(c))
    .map(({ column, c }) => `${escapeIdentifier(column.name)} = n.c${c}`);
  await run(
    session,
    table,
    `update ${table.ownRows} t set ${set.join(", ")} from pg_temp.${table.staging} n ` +
      `where ${table.isWide ? `n.ctid <> ${firstRow}` : `n.g = ${stageGroup.update}`} and ${found(table, isOldWhole)}`,
  );
}

function rowUnknown({ target }: PreparedTable): RowsMissing {
  return new RowsMissing(
    `Table ${qualifiedName(target)}: a row was changed under a key that is not known any more, and the source did not send ` +
      "the whole of the old row: the table is copied again.",
  );
}

/**
 * What else has the key that a row moves to takes nothing with it: the source has nothing there. Where no row is to move, it stays, unless
 * `isOldWhole` is null: then the one that moves comes otherwise.
 */
async function giveWay(
  session: MergeSession,
  table: PreparedTable,
  isOldWhole: boolean | null,
): Promise<void> {
  const { isNew } = staged(table);
  const others = isOldWhole === null ? "" : ` and not (${found(table, isOldWhole)})`;
  const { rowCount } = await session.client.query(deleteSameSql(table, isNew) + others);
  if (rowCount) warnOfReplaced(session, table, rowCount);
}

interface KnownRows {
  /** The row that is to move is there as the stream has brought it. */
  readonly isOldThere: boolean;
  /** What is under the new key is no row of the copy: the source had nothing there. */
  readonly isNewStreamed: boolean;
}

/** What is known of both rows while a merged copy is caught up with. */
async function knownOf(
  { client, owed }: MergeSession,
  table: PreparedTable,
  commitLsn: Lsn,
): Promise<KnownRows> {
  const isLoose = table.key.some((c) => table.columns[c]!.indexed?.isLoose !== false);
  if (owed === null || isLoose) return { isOldThere: false, isNewStreamed: false };
  const key = table.key.map((c) => `s.c${c}::text`).join(", ");
  const isThere = `exists (select from ${table.ownRows} o where ${byKey(table).join(" and ")})`;
  const { rows } = await client.query<{ key: RowKey; isOld: boolean; isThere: boolean }>(
    `select array[${key}] as key, ${staged(table).isOld} as "isOld", ${isThere} as "isThere" ` +
      `from pg_temp.${table.staging} s`,
  );
  const isStreamed = ({ key }: { key: RowKey }) => !owed.ahead.mayHold(table.relation, key, commitLsn);
  return {
    isOldThere: rows.some((row) => row.isOld && row.isThere && isStreamed(row)),
    isNewStreamed: rows.some((row) => !row.isOld && isStreamed(row)),
  };
}

/**
 * While a merged copy is caught up with, it may hold the row under its new key, beside the one under the old key that was
 * there before. Then the copy's is the one to go on with: it has the values that were not sent, where the other may by now be
 * another row that took the old key.
 */
async function isMovedAlready(
  { client }: MergeSession,
  table: PreparedTable,
  keeps: readonly number[],
): Promise<boolean> {
  const { isOld, isNew } = staged(table);
  const update = updateSql(table, keeps) ?? ((condition: string) => findSql(table, condition));
  const { rowCount } = await client.query(update(isNew));
  if (!rowCount) return false;
  await client.query(deleteSql(table, isOld));
  return true;
}

/** The row is under no key any more until it is copied by itself: what was under the old one may be another's. */
async function oweMoved(client: Client, owed: OwedRowNotes, table: PreparedTable): Promise<void> {
  const { isOld, isNew } = staged(table);
  await client.query(owed.noteSql(table, isNew));
  owed.noted(table.relation.id);
  await client.query(deleteSql(table, isOld));
}

/** The conditions that pick the old row and the new one. */
function staged({ isWide }: PreparedTable): { readonly isOld: string; readonly isNew: string } {
  if (isWide) return { isOld: `s.ctid = ${firstRow}`, isNew: `s.ctid <> ${firstRow}` };
  return { isOld: inGroups([stageGroup.delete]), isNew: inGroups([stageGroup.update]) };
}

/** The one row that the staged old row stands for: by its key, and where the source sent it whole, by all of it. */
function found(table: PreparedTable, isOldWhole: boolean): string {
  const match = [...byKey(table), ...(isOldWhole ? [byImage(table)] : [])].join(" and ");
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

async function run(session: MergeSession, table: PreparedTable, sql: string): Promise<void> {
  const { rowCount } = await session.client.query(sql);
  if (rowCount === 1 || table.copy.kind === "none" || session.repeats) return;
  if (table.key.length > 0) {
    // The copy that is made beside the stream brings it.
    if (session.touched.brings(table.relation)) return;
    throw new RowsMissing();
  }
  session.warn(
    `Table ${qualifiedName(table.target)} lacks a row that the source has changed: something else has changed or deleted ` +
      "it. Create a Snapshot task for this table to mend it.",
  );
}
