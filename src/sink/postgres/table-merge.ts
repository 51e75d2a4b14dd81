// Writes what a batch comes to for one table: COPY for new rows, and set-wise deletes and updates from a staging table.
// Runs inside a transaction that the caller began.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import { unchangedAsNull } from "../../change/tuple.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { copyIn } from "./copy-in.ts";
import type { InsertRuns, NetChanges, TupleRef } from "./net-changes.ts";
import type { PreparedTable } from "./prepared-table.ts";
import {
  CopyBody,
  copyToStagingSql,
  copyToTargetSql,
  createStagingSql,
  deleteSql,
  insertSql,
  stageGroup,
  updateSql,
} from "./staging.ts";

/** What has been learnt about a session's staging tables. */
export interface MergeSession {
  readonly client: Client;
  readonly form: TupleForm;
  /** Staging tables that exist in this session, by name; whether they hold rows of this transaction. */
  readonly staging: Map<string, { dirty: boolean }>;
  /** Replace whatever has the same key, instead of trusting that inserts are new: after a unique violation. */
  readonly careful: boolean;
  readonly warn: (reason: string) => void;
}

/** Inserts rows that are new to the table. */
export async function insertRuns(
  session: MergeSession,
  table: PreparedTable,
  inserts: InsertRuns,
): Promise<void> {
  const isStaged = session.form === "text" || (session.careful && table.key.length > 0);
  if (isStaged) {
    const body = new CopyBody();
    for (const run of inserts.runs)
      for (const tuple of splitRun(run)) body.addGrouped(stageGroup.insert, tuple);
    await stage(session, table, body);
    if (session.careful && table.key.length > 0) {
      await session.client.query(deleteSql(table, session.form, [stageGroup.insert]));
    }
    await session.client.query(insertSql(table, session.form, [stageGroup.insert]));
    return;
  }
  const body = new CopyBody();
  for (const run of inserts.runs) body.addRun(run, 1);
  await copyIn(session.client, copyToTargetSql(table), body.chunks());
}

/** Writes the last state of each key. */
export async function mergeNetChanges(
  session: MergeSession,
  table: PreparedTable,
  net: NetChanges,
): Promise<void> {
  const plan = planMerge(net, session.form === "text" || session.careful);
  if (plan.staged.rows > 0) {
    await stage(session, table, plan.staged);
    if (session.careful) await replaceStaged(session, table, plan);
    else await applyStaged(session, table, plan);
  }
  if (plan.direct.rows > 0) await copyIn(session.client, copyToTargetSql(table), plan.direct.chunks());
}

interface MergePlan {
  readonly staged: CopyBody;
  /** New rows that go straight into the target. */
  readonly direct: CopyBody;
  readonly deletes: number;
  readonly updates: number;
  readonly stagedInserts: number;
  /** Updates that leave columns as they are: group number, columns, rows. */
  readonly partial: readonly {
    readonly group: number;
    readonly unchanged: readonly number[];
    rows: number;
  }[];
}

function planMerge(net: NetChanges, stageInserts: boolean): MergePlan {
  const staged = new CopyBody();
  const direct = new CopyBody();
  const partial = new Map<string, { group: number; unchanged: readonly number[]; rows: number }>();
  let deletes = 0;
  let updates = 0;
  let stagedInserts = 0;
  for (let entry = 0; entry < net.size; entry++) {
    switch (net.kindOf(entry)) {
      case "insert":
        if (stageInserts) {
          stagedInserts++;
          staged.addGrouped(stageGroup.insert, net.tupleOf(entry));
        } else direct.add(net.tupleOf(entry));
        break;
      case "delete":
        deletes++;
        staged.addGrouped(stageGroup.delete, net.tupleOf(entry));
        break;
      case "update": {
        const unchanged = net.unchangedOf(entry);
        if (unchanged.length === 0) {
          updates++;
          staged.addGrouped(stageGroup.update, net.tupleOf(entry));
          break;
        }
        const set = partial.get(unchanged.join()) ?? { group: partial.size + 1, unchanged, rows: 0 };
        partial.set(unchanged.join(), set);
        set.rows++;
        const { bytes, start } = net.tupleOf(entry);
        const tuple = unchangedAsNull(bytes, start);
        staged.addGrouped(set.group, { bytes: tuple, start: 0, end: tuple.length });
        break;
      }
      case "none":
        break;
    }
  }
  return { staged, direct, deletes, updates, stagedInserts, partial: [...partial.values()] };
}

async function applyStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const { client, form } = session;
  if (plan.deletes > 0) await client.query(deleteSql(table, form, [stageGroup.delete]));
  if (plan.updates > 0) await updateStaged(session, table, plan.updates);
  await updatePartial(session, table, plan);
  if (plan.stagedInserts > 0) await client.query(insertSql(table, form, [stageGroup.insert]));
}

async function updateStaged(session: MergeSession, table: PreparedTable, expected: number): Promise<void> {
  const sql = updateSql(table, session.form, stageGroup.update, []);
  if (sql === null) return;
  const { rowCount } = await session.client.query(sql);
  if (rowCount === expected) return;
  const inserted = await session.client.query(insertSql(table, session.form, [stageGroup.update], true));
  session.warn(
    `Table ${table.target.schema}.${table.target.name} lacked ${inserted.rowCount ?? 0} rows that the source has updated: ` +
      "they were put back. Somebody else writes to the table.",
  );
}

async function updatePartial(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  for (const { group, unchanged, rows } of plan.partial) {
    const sql = updateSql(table, session.form, group, unchanged);
    if (sql === null) continue;
    const { rowCount } = await session.client.query(sql);
    if (rowCount === rows) continue;
    throw new MillraceError(
      "sink_rejected_rows",
      `Table ${table.target.schema}.${table.target.name} lacks rows that the source has updated, and the source did not ` +
        "send all of their values (TOAST). Create a Snapshot task for this table to mend it.",
    );
  }
}

/** As `applyStaged`, but takes away whatever has a staged key first: for value swaps, and for rows that should not be there. */
async function replaceStaged(session: MergeSession, table: PreparedTable, plan: MergePlan): Promise<void> {
  const { client, form } = session;
  const whole = [stageGroup.update, stageGroup.insert];
  await client.query(deleteSql(table, form, [stageGroup.delete, ...whole]));
  await updatePartial(session, table, plan);
  await client.query(insertSql(table, form, whole));
}

/** COPY into the table's staging table, made or emptied first. */
export async function stage(session: MergeSession, table: PreparedTable, body: CopyBody): Promise<void> {
  const known = session.staging.get(table.staging);
  if (!known) await session.client.query(createStagingSql(table, session.form));
  else if (known.dirty) await session.client.query(`truncate pg_temp.${table.staging}`);
  session.staging.set(table.staging, { dirty: true });
  await copyIn(session.client, copyToStagingSql(table), body.chunks());
}

/** The tuples of a run. Each says how many columns it has, and they how long they are. */
function* splitRun(run: TupleRef): Generator<TupleRef> {
  const view = new DataView(run.bytes.buffer, run.bytes.byteOffset);
  let at = run.start;
  while (at < run.end) {
    const start = at;
    const columns = view.getInt16(at);
    at += 2;
    for (let i = 0; i < columns; i++) at += 4 + Math.max(0, view.getInt32(at));
    yield { bytes: run.bytes, start, end: at };
  }
}
