// Begins an incremental copy between two batches, or resumes an interrupted one. The copy itself is incremental-copy.ts.

import type { Client } from "pg";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import { keyNames, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CopyMode, TableCopy } from "../../copy-sink.ts";
import { dropCopy, recordBegun } from "../bookkeeping/copy-records.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable } from "../schema/target-table.ts";
import type { SinkTables } from "../sink-tables.ts";
import type { CopyContext, CopyingSink } from "./copy-context.ts";
import { createKeyTables, helperTables } from "./helper-tables.ts";
import { type BegunCopy, IncrementalCopy, targetFacts } from "./incremental-copy.ts";
import { isEligible, readChunkTarget } from "./incremental-eligibility.ts";
import { type IncrementalFingerprint, incrementalFormat, parseFingerprint } from "./interrupted-copies.ts";
import { hasRows } from "./whole-copy.ts";

/** Returns null where the table must be copied while the stream waits. */
export async function beginIncremental(context: CopyContext, mode: CopyMode): Promise<TableCopy | null> {
  const { table, sink } = context;
  const { relation } = table;
  const { tables, naming, connector, refusals, apply } = sink;
  const isFirst = mode === "initial";
  if (hasOneSession(sink.config.connection) || refusals.isTraced(relation)) return null;
  const at = isFirst ? apply.resumeLsn() : null;
  if ((isFirst && !connector.makesCopies) || !isEligible(tables, table, at)) return null;
  // An interrupted blocking copy has ranges in a side table. They stay valid only if the stream waits for the rest.
  if (isFirst && (tables.records.of(relation.id, "side")?.ranges.length ?? 0) > 0) return null;
  const replaces = context.modeFor(mode) === "replace";
  const begun = await context.betweenBatches(async (client) => {
    if (isFirst && !(await makeReady(client, sink, table))) return null;
    const into = await readChunkTarget(client, naming, relation);
    if (into === null) return null;
    const begin = { table, target: into.target, isFirst, replaces };
    const isBegun = resume(sink, begin) ?? (await beginNew(client, sink, begin));
    return isBegun && { ...into, isFirst, ...isBegun };
  });
  if (begun === null) return null;
  if (isFirst) tables.underWay.begin(table);
  return new IncrementalCopy(context, begun);
}

interface Beginning extends Omit<BegunCopy, "form"> {
  readonly table: TableShape;
}

/** Makes the target ready for the table's changes. Returns false where that fails: a blocking copy then reports the reason. */
async function makeReady(
  client: Client,
  { tables, naming, apply, connector }: CopyingSink,
  { relation }: TableShape,
): Promise<boolean> {
  const target = naming.target(relation);
  const isThere = (await readTargetTable(client, target)) !== null;
  if (isThere) await requireUnlocked(client, tables, relation, target);
  if (isThere && (await readChunkTarget(client, naming, relation)) === null) return false;
  try {
    await tables.makeReady(client, relation, apply.form(), apply.resumeLsn());
    return tables.isReadyFor(relation);
  } catch (error) {
    if (connector.signal.aborted) throw error;
    return false;
  }
}

/** Null: no interrupted copy can be resumed. Its ranges count only while its fingerprint is the same. */
function resume(sink: CopyingSink, begin: Beginning): Pick<Beginning, "replaces"> | null {
  const { tables } = sink;
  const { relation } = begin.table;
  const record = tables.records.of(relation.id, "incremental");
  if (record === null || tables.touched.of(relation) === null) return null;
  // A first copy keeps the mode that it began with.
  const { replaces } = begin.isFirst ? parseFingerprint(record.fingerprint) : begin;
  return record.fingerprint === fingerprintOf(sink, { ...begin, replaces }) ? { replaces } : null;
}

/**
 * In no transaction. Null: the target holds somebody else's rows. If a first copy is given up half-way, the next copy must replace its rows,
 * and it could not tell them from the others.
 */
async function beginNew(
  client: Client,
  sink: CopyingSink,
  begin: Beginning,
): Promise<Pick<Beginning, "replaces"> | null> {
  const { table, target, isFirst, replaces } = begin;
  const { connectorId } = sink.connector;
  const { records, touched, ledger } = sink.tables;
  const { relation } = table;
  const fingerprint = fingerprintOf(sink, begin);
  const begun = async () => {
    // The stream of all tables waits meanwhile.
    await client.query("set local lock_timeout = '1s'");
    if (isFirst && !replaces && (await hasRows(client, target))) return false;
    // One that was interrupted ends, and the last one may have left tables that it could not drop.
    await dropCopy(client, connectorId, relation.id);
    await createKeyTables(client, helperTables(connectorId, relation.id), target, relation, replaces);
    await recordBegun(client, connectorId, { tableId: relation.id, kind: "incremental", fingerprint });
    if (isFirst) await ledger.voidUncopied(client, relation);
    return true;
  };
  const isBegun = await sink.tables.inTransaction(client, begun).catch((error: unknown) => {
    throw sqlStateOf(error) === sqlState.lockNotAvailable ? lockedAtSink(relation, "table_changed") : error;
  });
  if (!isBegun) return null;
  touched.end(relation.id);
  records.begun(relation.id, "incremental", fingerprint);
  return { replaces };
}

function lockedAtSink(relation: Relation, code: "table_locked" | "table_changed"): MillraceError {
  const text = `Table ${qualifiedName(relation)} is locked by another session at the sink. It is copied when that has ended.`;
  return new MillraceError(code, text);
}

/** Before anything is recorded of the table: rows of somebody else would be taken for its own then. Throws `table_locked`. */
async function requireUnlocked(
  client: Client,
  tables: SinkTables,
  relation: Relation,
  target: TargetName,
): Promise<void> {
  const probe = () =>
    client.query(`set local lock_timeout = '1s'; lock table ${sqlName(target)} in access share mode`);
  await tables.inTransaction(client, probe).catch((error: unknown) => {
    // The copy meets any other failure, and tells of it.
    if (sqlStateOf(error) === sqlState.lockNotAvailable) throw lockedAtSink(relation, "table_locked");
  });
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
