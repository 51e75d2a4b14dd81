// Writes what a batch comes to for one table: COPY for new rows, and set-wise deletes and updates from a staging table.
// Runs inside a transaction that the caller began.

import { qualifiedName } from "../../../change/relation.ts";
import { keyAlone, type TupleRef } from "../../../change/tuple.ts";
import { copyIn } from "../copy/copy-in.ts";
import { noteNetChanges } from "../copy/touch-notes.ts";
import { type CopyBody, copyBody } from "./copy-body.ts";
import type { MergeSession } from "./merge-session.ts";
import type { InsertRuns, NetChanges } from "./net-changes.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { RowsMissing } from "./rows-missing.ts";
import { StagedRows } from "./staged-rows.ts";
import {
  completeSql,
  copyToTargetSql,
  createKeptSql,
  deleteFixedSql,
  deleteSameSql,
  deleteSql,
  dropKeptSql,
  insertKeptSql,
  insertSql,
  keepSql,
  stageGroup,
  updateSql,
} from "./staging.ts";

/** Inserts rows that are new to the table. */
export async function insertRuns(
  session: MergeSession,
  table: PreparedTable,
  inserts: InsertRuns,
): Promise<void> {
  if (session.careful && table.key.length > 0) {
    const staged = new StagedRows(session, table);
    for (const tuple of inserts.tuples()) staged.add(stageGroup.insert, tuple);
    await usingIndex(session, table, () => replaceRows(session, table, staged, [], [stageGroup.insert]));
    return;
  }
  const body = copyBody(session.form);
  for (const { run, rows } of inserts.runs) body.addRun(run, rows);
  await copyIn(session.client, copyToTargetSql(table, session.form), body.chunks());
  body.release();
}

/** Writes the last state of each key. `later` takes what deletes rows, where other tables may have to let go of them first. */
export async function mergeNetChanges(
  session: MergeSession,
  table: PreparedTable,
  net: NetChanges,
  later: (() => Promise<void>)[] | null = null,
): Promise<void> {
  await noteNetChanges(session, table, net);
  const plan = planMerge(session, table, net);
  if (plan.staged.rows > 0) {
    await usingIndex(session, table, () =>
      session.careful ? replaceStaged(session, table, plan) : applyStaged(session, table, plan, later),
    );
  }
  if (plan.direct.rows > 0) {
    await copyIn(session.client, copyToTargetSql(table, session.form), plan.direct.chunks());
    plan.direct.release();
  }
}

/**
 * The planner knows nothing of a temporary table, and would rather read a large target whole than follow its index. Where
 * there is no index, it is left to choose.
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
  session.warn(
    `Table ${qualifiedName(table.target)} had ${rows} rows with keys of rows that the source has inserted or moved, which took their place: something ` +
      "else has written them, or the key at the sink does not tell apart what the source's does.",
  );
}

const shortTupleBytes = 4096;

interface MergePlan {
  readonly staged: StagedRows;
  /** New rows that go straight into the target. */
  readonly direct: CopyBody;
  readonly deletes: number;
  readonly updates: number;
  /** Updates that leave columns as they are: group number, columns, rows. */
  readonly partial: readonly {
    readonly group: number;
    readonly unchanged: readonly number[];
    rows: number;
  }[];
}

/** A row to delete is found by its key: what else is in a long one need not travel. */
function withoutRest(tuple: TupleRef, key: readonly number[]): TupleRef {
  if (tuple.end - tuple.start <= shortTupleBytes) return tuple;
  const bytes = keyAlone(tuple.bytes, tuple.start, key);
  return { bytes, start: 0, end: bytes.length };
}

function planMerge(session: MergeSession, table: PreparedTable, net: NetChanges): MergePlan {
  const { form, careful } = session;
  const staged = new StagedRows(session, table);
  const direct = copyBody(form);
  const partial = new Map<string, { group: number; unchanged: readonly number[]; rows: number }>();
  const isNoted = session.touched.of(table.relation) !== null;
  let deletes = 0;
  let updates = 0;
  for (let entry = 0; entry < net.size; entry++) {
    switch (net.kindOf(entry)) {
      case "insert":
        if (careful) staged.add(stageGroup.insert, net.tupleOf(entry));
        else direct.add(net.tupleOf(entry));
        break;
      case "delete":
        deletes++;
        staged.add(stageGroup.delete, withoutRest(net.tupleOf(entry), table.key));
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
        // A copy that was made between its insert and its delete has the row, and begins before both. One that is made beside the
        // stream does not look any more at what else may have its key.
        if (!(session.repeats || isNoted) || !net.isTaken(entry)) break;
        deletes++;
        staged.add(stageGroup.delete, withoutRest(net.tupleOf(entry), table.key));
        break;
    }
  }
  return { staged, direct, deletes, updates, partial: [...partial.values()] };
}

async function applyStaged(
  session: MergeSession,
  table: PreparedTable,
  plan: MergePlan,
  later: (() => Promise<void>)[] | null,
): Promise<void> {
  const remove = async () => {
    await plan.staged.over([stageGroup.delete], (condition) => deleteSql(table, condition));
  };
  if (plan.deletes > 0 && later === null) await remove();
  else if (plan.deletes > 0) later?.push(() => usingIndex(session, table, remove));
  if (plan.updates > 0) await updateStaged(session, table, plan);
  await updatePartial(session, table, plan);
}

async function updateStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const sql = updateSql(table, []);
  if (sql === null && table.fixed.length === 0) return;
  const updated = sql === null ? 0 : await plan.staged.over([stageGroup.update], sql);
  if (updated === plan.updates) return;
  const replaced =
    table.fixed.length === 0
      ? 0
      : await plan.staged.over([stageGroup.update], (condition) => deleteFixedSql(table, condition));
  const inserted = await plan.staged.over([stageGroup.update], (condition) =>
    insertSql(table, condition, true),
  );
  if (table.copy.kind === "none" || inserted <= replaced) return;
  session.warn(
    `Table ${qualifiedName(table.target)} lacked ${inserted - replaced} rows that the source has updated: they were put ` +
      "back. Something else has deleted them.",
  );
}

async function updatePartial(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  for (const { group, unchanged, rows } of plan.partial) {
    const sql = updateSql(table, unchanged);
    const updated = sql === null ? 0 : await plan.staged.over([group], sql);
    if (session.owed !== null && updated !== rows) {
      const { owed } = session;
      const noted = await plan.staged.over([group], (condition) => owed.noteSql(table, condition));
      if (noted > 0) owed.noted(table.relation.id);
      continue;
    }
    if (sql === null) continue;
    // While a merged copy is caught up with, a row may be gone already; without a copy it was never there.
    if (updated === rows || table.copy.kind === "none" || session.repeats) continue;
    // The copy that is made beside the stream brings it.
    if (session.touched.brings(table.relation)) continue;
    throw new RowsMissing();
  }
}

/** As `applyStaged`, but takes away whatever has a staged key first: for value swaps, and for rows that should not be there. */
async function replaceStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const completed = await completeStaged(table, plan);
  const whole = [stageGroup.update, stageGroup.insert, ...completed];
  const partial = plan.partial.filter(({ group }) => !completed.includes(group));
  await replaceRows(session, table, plan.staged, [stageGroup.delete], whole, () =>
    updatePartial(session, table, { ...plan, partial }),
  );
}

/**
 * Rows that an update left in part as they were are made whole, from those that are there: values may have swapped between them, too.
 * Returns their groups; not those of which a row is missing. Where groups are staged apart, what was completed would not stay.
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
 * Rows of the groups `gone` are deleted, and those of `whole` put in the place of what has their keys; `between` runs when all of
 * these are away. Rows that others refer to stay where they are; columns of the sink's own keep what they hold.
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
  if (isReferred) {
    if (gone.length > 0) await staged.over(gone, (condition) => deleteSql(table, condition));
    await between();
    const sql = updateSql(table, []);
    if (sql !== null) await staged.over(whole, sql);
    await staged.over(whole, (condition) => insertSql(table, condition, true));
    return;
  }
  const isKept = extras.length > 0;
  if (isKept) {
    await session.client.query(createKeptSql(table));
    await staged.over(whole, (condition) => keepSql(table, condition));
  }
  const isNew = (group: number) => group === stageGroup.insert && !session.repeats;
  const known = [...gone, ...whole].filter((group) => !isNew(group));
  if (known.length > 0) await staged.over(known, (condition) => deleteSql(table, condition));
  if (whole.some(isNew)) {
    const replaced = await staged.over([stageGroup.insert], (condition) => deleteSameSql(table, condition));
    if (replaced > 0 && !table.relation.isKeyedByHash) warnOfReplaced(session, table, replaced);
  }
  await between();
  if (isKept) await staged.over(whole, (condition) => insertKeptSql(table, condition, false));
  await staged.over(whole, (condition) =>
    isKept ? insertKeptSql(table, condition, true) : insertSql(table, condition),
  );
  if (isKept) await session.client.query(dropKeptSql);
}
