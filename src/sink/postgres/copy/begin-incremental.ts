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

/** Returns null where the table must be copied while the stream waits. Throws `table_locked` where another session has locked the target. */
export async function beginIncremental(context: CopyContext, mode: CopyMode): Promise<TableCopy | null> {
  const { table, sink } = context;
  const { relation } = table;
  const { tables, connector, refusals, apply } = sink;
  const isFirst = mode === "initial";
  if (hasOneSession(sink.config.connection) || refusals.isTraced(relation)) return null;
  const at = isFirst ? apply.resumeLsn() : null;
  if ((isFirst && !connector.makesCopies) || !isEligible(tables, table, at)) return null;
  // An interrupted blocking copy has ranges in a side table. They stay valid only if the stream waits for the rest.
  if (isFirst && (tables.records.of(relation.id, "side")?.ranges.length ?? 0) > 0) return null;
  const replaces = context.modeFor(mode) === "replace";
  const begun = await context.betweenBatches((client) =>
    tables
      .inTransaction(client, () => begin(client, sink, { table, isFirst, replaces }))
      .catch((error: unknown) => {
        if (sqlStateOf(error) === sqlState.lockNotAvailable) throw lockedAtSink(relation);
        // A blocking copy meets whatever else keeps a first copy from its target, and reports it.
        if (!isFirst || connector.signal.aborted) throw error;
        return null;
      }),
  );
  if (begun === null) return null;
  if (isFirst) tables.underWay.begin(table);
  return new IncrementalCopy(context, begun);
}

interface Beginning extends BegunCopy {
  readonly table: TableShape;
}

/** In the open transaction: so a first copy's target is made ready for the table's changes only together with its copy. */
async function begin(
  client: Client,
  sink: CopyingSink,
  asked: Pick<Beginning, "table" | "isFirst" | "replaces">,
): Promise<BegunCopy | null> {
  const { tables, naming, apply } = sink;
  const { relation } = asked.table;
  // The stream of all tables waits meanwhile.
  await client.query("set local lock_timeout = '1s'");
  if (asked.isFirst) {
    const isThere = (await readTargetTable(client, naming.target(relation))) !== null;
    if (isThere && (await readChunkTarget(client, naming, relation)) === null) return null;
    await tables.registry.prepared(client, relation, apply.form(), apply.resumeLsn());
    if (!tables.isReadyFor(relation)) return null;
  }
  const into = await readChunkTarget(client, naming, relation);
  const beginning = into && { ...asked, ...into };
  return beginning && (resumed(sink, beginning) ?? (await begunAnew(client, sink, beginning)));
}

/** Null: no interrupted copy can be resumed. Its ranges count only while its fingerprint is the same. */
function resumed(sink: CopyingSink, beginning: Beginning): BegunCopy | null {
  const { records, touched } = sink.tables;
  const { relation } = beginning.table;
  const record = records.of(relation.id, "incremental");
  if (record === null || touched.of(relation) === null) return null;
  // A first copy keeps the mode that it began with.
  const { replaces } = beginning.isFirst ? parseFingerprint(record.fingerprint) : beginning;
  const copy = { ...beginning, replaces };
  return record.fingerprint === fingerprintOf(sink, copy) ? copy : null;
}

/**
 * Throws where the target holds somebody else's rows. If a first copy is given up half-way, the next copy must replace its rows, and it could not
 * tell them from the others. So nothing is recorded of it either: a table that is recorded has only rows of its own.
 */
async function begunAnew(client: Client, sink: CopyingSink, beginning: Beginning): Promise<BegunCopy> {
  const { table, target, isFirst, replaces } = beginning;
  const { connectorId } = sink.connector;
  const { records, touched, ledger } = sink.tables;
  const { relation } = table;
  if (isFirst && !replaces && (await hasRows(client, target))) throw new Error("the target has other rows");
  const fingerprint = fingerprintOf(sink, beginning);
  // One that was interrupted ends, and the last one may have left tables that it could not drop.
  await dropCopy(client, connectorId, relation.id);
  await createKeyTables(client, helperTables(connectorId, relation.id), target, relation, replaces);
  await recordBegun(client, connectorId, { tableId: relation.id, kind: "incremental", fingerprint });
  if (isFirst) await ledger.voidUncopied(client, relation);
  touched.end(relation.id);
  records.begun(relation.id, "incremental", fingerprint);
  return beginning;
}

function lockedAtSink(relation: Relation): MillraceError {
  const text = `Table ${qualifiedName(relation)} is locked by another session at the sink. It is copied when that has ended.`;
  return new MillraceError("table_locked", text);
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
