// Begins an incremental copy between two batches, or resumes an interrupted one. The copy itself is incremental-copy.ts.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { keyNames, type Relation, type TableShape } from "../../../change/relation.ts";
import type { CopyMode, TableCopy } from "../../copy-sink.ts";
import { dropCopy, recordBegun } from "../bookkeeping/copy-records.ts";
import { recordPartial } from "../bookkeeping/incomplete-rows.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import type { SinkTables } from "../sink-tables.ts";
import { createKeyTables, dropChunkTables, helperTables } from "./helper-tables.ts";
import { IncrementalCopy, type IncrementalCopyOptions, targetFacts } from "./incremental-copy.ts";
import { isEligible, isFollowed, readChunkTarget } from "./incremental-eligibility.ts";
import { type IncrementalFingerprint, incrementalFormat, parseFingerprint } from "./interrupted-copies.ts";
import { copyInvalidated } from "./touched-keys.ts";
import { type CopyOutcome, hasRows, type KnownTable, recordOutcome } from "./whole-copy.ts";

/** What an incremental copy needs of the sink. */
export interface IncrementalCopyContext
  extends Pick<IncrementalCopyOptions, "connector" | "inSession" | "betweenBatches"> {
  readonly naming: TargetNaming;
  readonly tables: SinkTables;
  /** The form in which batches come. */
  readonly form: () => TupleForm;
  readonly resumeLsn: () => Lsn;
  readonly known: () => KnownTable;
  readonly made: (outcome: Omit<CopyOutcome, "rows">) => void;
}

/** Returns null where the table must be copied while the stream waits. */
export async function beginIncremental(
  copies: IncrementalCopyContext,
  table: TableShape,
  mode: CopyMode,
  isFirst: boolean,
): Promise<TableCopy | null> {
  const { tables, naming, connector, betweenBatches, inSession } = copies;
  const { relation } = table;
  if (!isEligible(tables, table, isFirst)) return null;
  // An interrupted blocking copy has ranges in a side table. They stay valid only if the stream waits for the rest.
  if (isFirst && (tables.records.of(relation.id, "side")?.ranges.length ?? 0) > 0) return null;
  const begun = await betweenBatches(async (client) => {
    if (isFirst && !(await makeReady(client, copies, table))) return null;
    const into = await readChunkTarget(client, naming, relation);
    if (into === null) return null;
    const begin = { table, target: into.target, isFirst, replaces: mode === "replace" };
    const isBegun = (await resume(client, copies, begin)) ?? (await beginNew(client, copies, begin));
    return isBegun && { ...into, ...isBegun };
  });
  if (begun === null) return null;
  if (isFirst) tables.underWay.begin(table);
  return new IncrementalCopy({
    ...{ connector, table, betweenBatches, inSession, ...begun },
    ...{ records: tables.records, touched: tables.touched },
    requireFollowed: () => requireFollowed(tables, relation, isFirst),
    ...{ isFirst, made: copies.made },
    record: (client, target, point) => recordEnd(client, copies, table, target, point),
    ended: () => tables.underWay.end(relation.id),
  });
}

interface Beginning {
  readonly table: TableShape;
  readonly target: TargetTable;
  readonly isFirst: boolean;
  readonly replaces: boolean;
}

/** Makes the target ready for the table's changes. Returns false where that fails: a blocking copy then reports the reason. */
async function makeReady(
  client: Client,
  { tables, naming, form, resumeLsn, connector }: IncrementalCopyContext,
  { relation }: TableShape,
): Promise<boolean> {
  const target = naming.target(relation);
  const isThere = (await readTargetTable(client, target)) !== null;
  if (isThere && (await readChunkTarget(client, naming, relation)) === null) return false;
  try {
    await tables.makeReady(client, relation, form(), resumeLsn());
    return tables.isReadyFor(relation);
  } catch (error) {
    if (connector.signal.aborted) throw error;
    return false;
  }
}

/** In no transaction. Null: no interrupted copy can be resumed. Its ranges count only while its fingerprint is the same. */
async function resume(
  client: Client,
  copies: IncrementalCopyContext,
  begin: Beginning,
): Promise<Pick<Beginning, "replaces"> | null> {
  const { tables, connector } = copies;
  const { relation } = begin.table;
  const record = tables.records.of(relation.id, "incremental");
  if (record === null || tables.touched.of(relation) === null) return null;
  // A first copy keeps the mode that it began with.
  const { replaces } = begin.isFirst ? parseFingerprint(record.fingerprint) : begin;
  if (record.fingerprint !== (await fingerprintOf(client, copies, { ...begin, replaces }))) return null;
  await dropChunkTables(client, connector.connectorId, relation.id);
  return { replaces };
}

/**
 * In no transaction. Null: the target holds somebody else's rows. If a first copy is given up half-way, the next copy must replace its rows,
 * and it could not tell them from the others.
 */
async function beginNew(
  client: Client,
  copies: IncrementalCopyContext,
  begin: Beginning,
): Promise<Pick<Beginning, "replaces"> | null> {
  const { table, target, isFirst, replaces } = begin;
  const { connectorId } = copies.connector;
  const { records, interrupted, ledger } = copies.tables;
  const { relation } = table;
  if (isFirst && !replaces && (await hasRows(client, target))) return null;
  await interrupted.drop(client, relation.id);
  const fingerprint = await fingerprintOf(client, copies, begin);
  await client.query("begin");
  // The last copy may have left tables that it could not drop.
  await dropCopy(client, connectorId, relation.id);
  await createKeyTables(client, helperTables(connectorId, relation.id), target, relation, replaces);
  await recordBegun(client, connectorId, { tableId: relation.id, kind: "incremental", fingerprint });
  if (isFirst) await ledger.voidUncopied(client, relation);
  await client.query("commit");
  records.begun(relation.id, "incremental", fingerprint);
  return { replaces };
}

async function fingerprintOf(
  client: Client,
  { tables: { touched }, connector: { connectorId } }: IncrementalCopyContext,
  { table, target, isFirst, replaces }: Beginning,
): Promise<string> {
  const { id, schema, name } = table.relation;
  // If the table is copied anew meanwhile, the time of that record differs.
  const { rows } = await client.query<{ stamp: string }>(
    "select extract(epoch from copied_at)::text as stamp from millrace.table_copy " +
      "where connector_id = $1 and table_schema = $2 and table_name = $3",
    [connectorId, schema, name],
  );
  const fingerprint: IncrementalFingerprint = {
    format: incrementalFormat,
    table: chunkedCopyFingerprint(table),
    replaces,
    facts: JSON.stringify([isFirst, isFirst ? null : (rows[0]?.stamp ?? null), targetFacts(target)]),
    keyNames: keyNames(table.relation),
    shape: touched.shapeOf(id),
  };
  return JSON.stringify(fingerprint);
}

/** As any other copy. Rows that the stream brought in part are incomplete from here on. */
async function recordEnd(
  client: Client,
  { connector, known, tables }: IncrementalCopyContext,
  table: TableShape,
  target: TargetTable,
  point: Lsn,
): Promise<Omit<CopyOutcome, "rows">> {
  const { relation } = table;
  const { touched } = helperTables(connector.connectorId, relation.id);
  const areIncomplete = await recordPartial(client, connector.connectorId, relation, touched);
  // Rows that were copied by key meanwhile are ahead.
  const ahead = tables.ledger.pointOf(relation.id) ?? zeroLsn;
  const isMixed = areIncomplete || ahead > point;
  const made = { point: ahead > point ? ahead : point, isMerged: isMixed, first: isMixed ? zeroLsn : null };
  return await recordOutcome(client, connector, table, made, known(), target, []);
}

/** Throws `table_changed` unless the sink still applies the table's changes. */
function requireFollowed(tables: SinkTables, relation: Relation, isFirst: boolean): void {
  if (isFirst) tables.underWay.requireValid(relation);
  const isStillApplied = isFirst
    ? tables.underWay.has(relation) && !tables.setAside.has(relation.id)
    : isFollowed(tables, relation);
  if (!isStillApplied) throw copyInvalidated(relation, "was left out, or is to be copied anew,");
}
