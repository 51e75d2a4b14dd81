// Begins an incremental copy between two batches, or resumes an interrupted one. The copy itself is incremental-copy.ts.

import type { Client } from "pg";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import { keyNames, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CopyMode, TableCopy } from "../../copy-sink.ts";
import { dropCopy, recordBegun } from "../bookkeeping/copy-records.ts";
import { readTargetTable } from "../schema/target-table.ts";
import type { CopyContext, CopyingSink } from "./copy-context.ts";
import { createKeyTables, helperTables } from "./helper-tables.ts";
import { type BegunCopy, IncrementalCopy, targetFacts } from "./incremental-copy.ts";
import { isEligible, readChunkTarget } from "./incremental-eligibility.ts";
import { type IncrementalFingerprint, incrementalFormat, parseFingerprint } from "./interrupted-copies.ts";
import { hasRows } from "./whole-copy.ts";

/** The stream is to wait for the copy: what was begun beside it is rolled back. */
const mustWait = new Error("the table is not copied beside the stream");

/** Null: the stream must wait for the copy. Throws where another session has locked the target of a task, or of a table that `mayBeLeftOut`. */
export async function beginIncremental(context: CopyContext, mode: CopyMode): Promise<TableCopy | null> {
  const { table, sink } = context;
  const { relation } = table;
  const { tables, connector } = sink;
  const isFirst = mode === "initial";
  const begun = await context.betweenBatches((client) =>
    tables
      .inTransaction(client, () => begin(client, context, mode))
      .catch((error: unknown) => {
        if (error === mustWait) return null;
        if (sqlStateOf(error) === sqlState.lockNotAvailable && (!isFirst || mayBeLeftOut(sink, relation)))
          throw lockedAtSink(relation, isFirst);
        const isOfTarget = error instanceof MillraceError || sqlStateOf(error) !== null;
        // A blocking copy meets whatever else keeps a first copy from its target, and reports it.
        if (isFirst && isOfTarget && !connector.signal.aborted) return null;
        throw error;
      }),
  );
  if (begun === null) return null;
  if (!begun.isResumed) {
    tables.touched.end(relation.id);
    tables.records.begun(relation.id, "incremental", fingerprintOf(sink, begun));
  }
  if (isFirst) tables.underWay.begin(table);
  return new IncrementalCopy(context, begun);
}

interface Beginning extends BegunCopy {
  readonly table: TableShape;
  readonly isResumed: boolean;
}

/** In the open transaction: so a first copy's target is made ready for the table's changes only together with its copy. */
async function begin(client: Client, context: CopyContext, mode: CopyMode): Promise<Beginning> {
  const { table, sink } = context;
  const { tables, naming, apply, connector, refusals } = sink;
  const { relation } = table;
  const isFirst = mode === "initial";
  // The stream of all tables waits meanwhile.
  await client.query("set local lock_timeout = '1s'");
  const existing = isFirst ? await readTargetTable(client, naming.target(relation)) : null;
  // Tables that refer to others are copied after them: they wait for one another's locks.
  const isAlone = existing !== null && !existing.isReferred && existing.refersTo.length === 0;
  if (isAlone && mayBeLeftOut(sink, relation))
    await client.query(`lock table ${existing.ownRows} in row exclusive mode`);
  if (hasOneSession(sink.config.connection) || refusals.isTraced(relation)) throw mustWait;
  if (!isEligible(tables, table, isFirst ? apply.resumeLsn() : null)) throw mustWait;
  if (isFirst) {
    // An interrupted blocking copy has ranges in a side table. They stay valid only if the stream waits for the rest.
    const ranges = tables.records.of(relation.id, "side")?.ranges ?? [];
    if (!connector.makesCopies || ranges.length > 0) throw mustWait;
    if (existing && (await readChunkTarget(client, naming, relation)) === null) throw mustWait;
    await tables.registry.prepared(client, relation, apply.form(), apply.resumeLsn());
    if (!tables.isReadyFor(relation)) throw mustWait;
  }
  const into = await readChunkTarget(client, naming, relation);
  if (into === null) throw mustWait;
  const replaces = context.modeFor(mode) === "replace";
  const beginning = { ...into, table, isFirst, replaces, isResumed: false };
  return resumed(sink, beginning) ?? (await begunAnew(client, sink, beginning));
}

/** Whether the others may go on where a first copy meets a lock: nothing of the table is there, or all of it is replaced, and no range is done. */
function mayBeLeftOut({ tables, naming }: CopyingSink, relation: Relation): boolean {
  const { shapes, ledger, touched } = tables;
  const isReplaced = ledger.isVoid(relation) && !naming.isShared(relation);
  return shapes.of(relation) === null || (isReplaced && touched.of(relation) === null);
}

/** Null: no interrupted copy can be resumed. Its ranges count only while its fingerprint is the same. */
function resumed(sink: CopyingSink, beginning: Beginning): Beginning | null {
  const { records, touched } = sink.tables;
  const { relation } = beginning.table;
  const record = records.of(relation.id, "incremental");
  if (record === null || touched.of(relation) === null) return null;
  // A first copy keeps the mode that it began with.
  const { replaces } = beginning.isFirst ? parseFingerprint(record.fingerprint) : beginning;
  const copy = { ...beginning, replaces, isResumed: true };
  return record.fingerprint === fingerprintOf(sink, copy) ? copy : null;
}

/**
 * Throws `mustWait` where the target holds somebody else's rows. If a first copy is given up half-way, the next copy must replace its rows, and it
 * could not tell them from the others.
 */
async function begunAnew(client: Client, sink: CopyingSink, beginning: Beginning): Promise<Beginning> {
  const { table, target, isFirst, replaces } = beginning;
  const { connectorId } = sink.connector;
  const { relation } = table;
  if (isFirst && !replaces && (await hasRows(client, target))) throw mustWait;
  const fingerprint = fingerprintOf(sink, beginning);
  // One that was interrupted ends, and the last one may have left tables that it could not drop.
  await dropCopy(client, connectorId, relation.id);
  await createKeyTables(client, helperTables(connectorId, relation.id), target, relation, replaces);
  await recordBegun(client, connectorId, { tableId: relation.id, kind: "incremental", fingerprint });
  if (isFirst) await sink.tables.ledger.voidUncopied(client, relation);
  return beginning;
}

/** Of a first copy, the others go on meanwhile. A task fails. */
function lockedAtSink(relation: Relation, isFirst: boolean): MillraceError {
  const text = `Table ${qualifiedName(relation)} is locked by another session at the sink. It is copied when that has ended.`;
  return new MillraceError(isFirst ? "table_locked" : "table_changed", text);
}

/** Each other copy of the table has dropped this one. */
function fingerprintOf({ tables }: CopyingSink, { table, target, isFirst, replaces }: Beginning): string {
  const fingerprint: IncrementalFingerprint = {
    format: incrementalFormat,
    table: chunkedCopyFingerprint(table),
    replaces,
    facts: JSON.stringify([isFirst, targetFacts(target)]),
    keyNames: keyNames(table.relation),
    shape: tables.touched.shapeOf(table.relation.id),
  };
  return JSON.stringify(fingerprint);
}
