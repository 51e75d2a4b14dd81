// Writes a batch's net changes of one table: COPY for new rows, set-wise deletes and updates from a staging table. Runs in the caller's
// transaction.

import { qualifiedName } from "../../../change/relation.ts";
import { keyOnlyTuple, type TupleRef } from "../../../change/tuple.ts";
import { recordNetChanges } from "../copy/touch-recorder.ts";
import { type CopyBody, copyBody } from "../copy-in/copy-body.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { RowsMissing } from "../refusals/rows-missing.ts";
import type { MergeSession } from "./merge-session.ts";
import type { InsertRuns, NetChanges } from "./net-changes.ts";
import { outOfDate, type PreparedTable } from "./prepared-table.ts";
import { StagedRows } from "./staged-rows.ts";
import {
  completeSql,
  copyToTargetSql,
  createExtrasSql,
  deleteFixedSql,
  deleteSameSql,
  deleteSql,
  dropExtrasSql,
  insertSql,
  insertWithExtrasSql,
  saveExtrasSql,
  saveFixedSql,
  stageGroup,
  updateSql,
} from "./staging.ts";

/** Inserts rows. If the session upserts, they replace rows of the same key. */
export async function insertRuns(
  session: MergeSession,
  table: PreparedTable,
  inserts: InsertRuns,
): Promise<void> {
  if (session.upserts && table.key.length > 0) {
    const staged = new StagedRows(session, table);
    for (const tuple of inserts.tuples()) staged.add(stageGroup.insert, tuple);
    await usingIndex(session, table, () => replaceRows(session, table, staged, [], [stageGroup.insert]));
    return;
  }
  const body = copyBody(session.form);
  for (const { run, rows } of inserts.runs) body.addRun(run, rows);
  await copyToTarget(session, table, body);
}

async function copyToTarget(session: MergeSession, table: PreparedTable, body: CopyBody): Promise<void> {
  const { client, form, written } = session;
  await copyIn(client, copyToTargetSql(table, form), body.chunks());
  if (form === "binary") written.add(table);
  body.release();
}

/** Writes the last state of each key. `deferredDeletes` takes the deletes where other tables may still refer to those rows. */
export async function mergeNetChanges(
  session: MergeSession,
  table: PreparedTable,
  net: NetChanges,
  deferredDeletes: (() => Promise<void>)[] | null = null,
): Promise<void> {
  await recordNetChanges(session, table, net);
  const plan = planMerge(session, table, net);
  if (plan.staged.rows > 0) {
    await usingIndex(session, table, () =>
      session.upserts
        ? replaceStaged(session, table, plan)
        : applyStaged(session, table, plan, deferredDeletes),
    );
  }
  if (plan.direct.rows > 0) await copyToTarget(session, table, plan.direct);
}

/**
 * Makes the planner use the key's index. It has no statistics of a temporary table, and would scan a large target instead. Without an index it
 * may choose.
 */
async function usingIndex(
  { client }: MergeSession,
  table: PreparedTable,
  action: () => Promise<void>,
): Promise<void> {
  if (!table.isKeyIndexed) return await action();
  await client.query("set local enable_hashjoin = off; set local enable_mergejoin = off");
  await action();
  await client.query("set local enable_hashjoin = on; set local enable_mergejoin = on");
}

export function warnOfReplaced(session: MergeSession, table: PreparedTable, rows: number): void {
  // Nobody has written them: changes were missed, or they are what a copy under way takes the place of.
  if (table.copy === outOfDate || table.copy.kind === "none") return;
  session.warn(
    `Table ${qualifiedName(table.target)} had ${rows} rows with keys of rows that the source has inserted or moved, which took their place: something ` +
      "else has written them, or the key at the sink does not tell apart what the source's does.",
  );
}

const shortTupleBytes = 4096;

interface MergePlan {
  readonly staged: StagedRows;
  /** New rows that go straight to the target. */
  readonly direct: CopyBody;
  readonly deletes: number;
  readonly updates: number;
  /** Updates with unchanged columns: group, columns, and number of rows. */
  readonly partial: readonly {
    readonly group: number;
    readonly unchanged: readonly number[];
    rows: number;
  }[];
}

/** A delete needs only the key: the rest of a long tuple is not sent. */
function keyOnlyIfLong(tuple: TupleRef, key: readonly number[]): TupleRef {
  if (tuple.end - tuple.start <= shortTupleBytes) return tuple;
  const bytes = keyOnlyTuple(tuple.bytes, tuple.start, key);
  return { bytes, start: 0, end: bytes.length };
}

function planMerge(session: MergeSession, table: PreparedTable, net: NetChanges): MergePlan {
  const { form, upserts } = session;
  const staged = new StagedRows(session, table);
  const direct = copyBody(form);
  const partial = new Map<string, { group: number; unchanged: readonly number[]; rows: number }>();
  const recordsTouched = session.touched.of(table.relation) !== null;
  let deletes = 0;
  let updates = 0;
  for (let entry = 0; entry < net.size; entry++) {
    switch (net.kindOf(entry)) {
      case "insert":
        if (upserts) staged.add(stageGroup.insert, net.tupleOf(entry));
        else direct.add(net.tupleOf(entry));
        break;
      case "delete":
        deletes++;
        staged.add(stageGroup.delete, keyOnlyIfLong(net.tupleOf(entry), table.key));
        break;
      case "update": {
        const unchanged = net.unchangedOf(entry);
        if (unchanged.length === 0) {
          updates++;
          staged.add(stageGroup.update, net.tupleOf(entry));
          break;
        }
        const set = partial.get(unchanged.join()) ?? { group: partial.size + 1, unchanged, rows: 0 };
        partial.set(unchanged.join(), set);
        set.rows++;
        staged.add(set.group, net.tupleOf(entry), true);
        break;
      }
      case "none":
        // Inserted and deleted in this batch. A merged copy made in between has the row. And while touched keys are recorded, an incremental
        // copy skips this key, so that a stale row under it would stay.
        if (!(session.repeats || recordsTouched) || !net.isResolved(entry)) break;
        deletes++;
        staged.add(stageGroup.delete, keyOnlyIfLong(net.tupleOf(entry), table.key));
        break;
    }
  }
  return { staged, direct, deletes, updates, partial: [...partial.values()] };
}

async function applyStaged(
  session: MergeSession,
  table: PreparedTable,
  plan: MergePlan,
  deferredDeletes: (() => Promise<void>)[] | null,
): Promise<void> {
  const remove = async () => {
    await plan.staged.over([stageGroup.delete], (condition) => deleteSql(table, condition));
  };
  if (plan.deletes > 0 && deferredDeletes === null) await remove();
  else if (plan.deletes > 0) deferredDeletes?.push(() => usingIndex(session, table, remove));
  if (plan.updates > 0) await updateStaged(session, table, plan);
  await updatePartial(session, table, plan);
}

async function updateStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const sql = updateSql(table, []);
  if (sql === null && table.fixed.length === 0) return;
  const updated = sql === null ? 0 : await plan.staged.over([stageGroup.update], sql);
  if (updated === plan.updates) return;
  if (table.fixed.length > 0) await replaceFixed(session, table, plan.staged);
  const inserted = await plan.staged.over([stageGroup.update], (condition) =>
    insertSql(table, condition, true),
  );
  if (table.copy.kind === "none" || inserted === 0) return;
  session.warn(
    `Table ${qualifiedName(table.target)} lacked ${inserted} rows that the source has updated: they were put ` +
      "back. Something else has deleted them.",
  );
}

/** Replaces rows that UPDATE cannot change as staged. Columns that somebody has added at the sink keep their values. */
async function replaceFixed(session: MergeSession, table: PreparedTable, staged: StagedRows): Promise<void> {
  await session.client.query(createExtrasSql(table));
  await staged.over([stageGroup.update], (condition) => saveFixedSql(table, condition));
  await staged.over([stageGroup.update], (condition) => deleteFixedSql(table, condition));
  await staged.over([stageGroup.update], (condition) => insertWithExtrasSql(table, condition, false));
  await session.client.query(dropExtrasSql);
}

async function updatePartial(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  for (const { group, unchanged, rows } of plan.partial) {
    const sql = updateSql(table, unchanged);
    const updated = sql === null ? 0 : await plan.staged.over([group], sql);
    if (session.incomplete !== null && updated !== rows) {
      const { incomplete } = session;
      const noted = await plan.staged.over([group], (condition) => incomplete.recordSql(table, condition));
      if (noted > 0) incomplete.recorded(table.relation.id);
      continue;
    }
    if (sql === null) continue;
    // Before the stream has passed a merged copy's point, the row may be deleted already. Without a copy it was never there.
    if (updated === rows || table.copy.kind === "none" || session.repeats) continue;
    // The incremental copy brings the row.
    if (session.touched.willBring(table.relation)) continue;
    throw new RowsMissing();
  }
}

/** As `applyStaged`, but deletes rows with staged keys first: rows may swap unique values, and there may be rows that should not be. */
async function replaceStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const completed = await completeStaged(table, plan);
  const whole = [stageGroup.update, stageGroup.insert, ...completed];
  const partial = plan.partial.filter(({ group }) => !completed.includes(group));
  await replaceRows(session, table, plan.staged, [stageGroup.delete], whole, () =>
    updatePartial(session, table, { ...plan, partial }),
  );
}

/**
 * Fills unchanged columns of staged rows from the target, so that these rows can be replaced too: they may swap unique values. Returns the
 * groups of which no row was missing. Does nothing for a wide table, whose groups are staged again for each statement.
 */
async function completeStaged(
  table: PreparedTable,
  { staged, partial }: MergePlan,
): Promise<readonly number[]> {
  if (table.isWide || table.isReferred) return [];
  const completed: number[] = [];
  for (const { group, unchanged, rows } of partial) {
    if ((await staged.over([group], completeSql(table, unchanged))) === rows) completed.push(group);
  }
  return completed;
}

/**
 * Deletes rows of the groups `gone`, and replaces rows of the groups `whole`. `between` runs after the deletes. Rows that foreign keys refer
 * to are updated instead. Columns that somebody has added at the sink keep their values. So do those that an older shape lacks; a row that
 * comes back in that shape is copied by its key.
 */
async function replaceRows(
  session: MergeSession,
  table: PreparedTable,
  staged: StagedRows,
  gone: readonly number[],
  whole: readonly number[],
  between = async () => {},
): Promise<void> {
  const { isReferred, extras } = table;
  const { incomplete } = session;
  if (table.isOlder && incomplete !== null) {
    const lacking = await staged.over(whole, (condition) => incomplete.recordSql(table, condition));
    if (lacking > 0) incomplete.recorded(table.relation.id);
  }
  if (isReferred) {
    if (gone.length > 0) await staged.over(gone, (condition) => deleteSql(table, condition));
    await between();
    const sql = updateSql(table, []);
    if (sql !== null) await staged.over(whole, sql);
    await staged.over(whole, (condition) => insertSql(table, condition, true));
    return;
  }
  const hasExtras = extras.length > 0;
  if (hasExtras) {
    await session.client.query(createExtrasSql(table));
    await staged.over(whole, (condition) => saveExtrasSql(table, condition));
  }
  const isNew = (group: number) => group === stageGroup.insert && !session.repeats;
  const known = [...gone, ...whole].filter((group) => !isNew(group));
  if (known.length > 0) await staged.over(known, (condition) => deleteSql(table, condition));
  if (whole.some(isNew)) {
    const replaced = await staged.over([stageGroup.insert], (condition) => deleteSameSql(table, condition));
    if (replaced > 0 && !table.relation.isKeyedByHash) warnOfReplaced(session, table, replaced);
  }
  await between();
  if (hasExtras) await staged.over(whole, (condition) => insertWithExtrasSql(table, condition, false));
  await staged.over(whole, (condition) =>
    hasExtras ? insertWithExtrasSql(table, condition, true) : insertSql(table, condition),
  );
  if (hasExtras) await session.client.query(dropExtrasSql);
}
