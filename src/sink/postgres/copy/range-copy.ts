// A blocking copy in ranges of the table's pages. Each range goes to a side table in one transaction with its record, so that it survives
// any crash and no reader sees it. When all ranges are there, they become visible together.

import { type Client, escapeIdentifier } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { zeroLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { columnNames, isKeyed, keyNames, type Relation, type TableShape } from "../../../change/relation.ts";
import { succeeds } from "../../../connection/in-savepoint.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { CopyChunk, CopyMode, TellPhase } from "../../copy-sink.ts";
import type { ConnectorAtSink } from "../bookkeeping/connector-lock.ts";
import {
  type CopiedRange,
  type CopyRecord,
  dropCopy,
  recordBegun,
  recordRange,
  sideFingerprint,
} from "../bookkeeping/copy-records.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { addKey, addKeyOf, createTable, resolveTypes } from "../schema/table-schema.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import {
  hasOtherUniqueIndex,
  keyIndexOf,
  readTargetTable,
  type TargetTable,
} from "../schema/target-table.ts";
import { mergeCopy } from "./copy-merge.ts";
import { chunkForm } from "./incremental-eligibility.ts";
import { type CopyOutcome, fitExisting, hasRows, type KnownTable, recordOutcome } from "./whole-copy.ts";

/** What is copied, and where it goes. */
export interface RangeCopy {
  readonly connector: ConnectorAtSink;
  readonly table: TableShape;
  readonly target: TargetName;
  /** The table that takes the ranges until all are there. */
  readonly side: TargetName;
}

/**
 * In a transaction: makes the side table, or resumes `begun` if its ranges are still valid. Returns the form that rows must have; null: the table must be
 * copied whole, and no ranges are left.
 */
export async function beginRanges(
  client: Client,
  copy: RangeCopy,
  begun: CopyRecord | null,
): Promise<{ readonly form: TupleForm; readonly isResumed: boolean } | null> {
  const { connector, table, target, side } = copy;
  const { relation } = table;
  const existing = await readTargetTable(client, target);
  const isPossible = existing === null ? isKeyed(relation) : await isDivisible(client, existing, relation);
  const there = begun && isPossible ? await readTargetTable(client, side) : null;
  const isResumed = there !== null && (await isAsMade(client, there, relation));
  const drop = () => dropCopy(client, connector.connectorId, relation.id);
  if (!isResumed) await drop();
  if (!isPossible) return null;
  if (!isResumed) {
    await (existing === null ? createSide(client, copy) : createTable(client, side, table));
    const record = { tableId: relation.id, kind: "side", fingerprint: sideFingerprint(table) } as const;
    await recordBegun(client, connector.connectorId, record);
  }
  const made = await readTargetTable(client, side);
  const form = made && chunkForm(made, relation);
  if (form === null) await drop();
  return form && { form, isResumed };
}

/**
 * Whether ranges of several points may stand side by side. Until the stream brings the changes in between, they may violate another unique
 * index or a foreign key.
 */
async function isDivisible(client: Client, target: TargetTable, relation: Relation): Promise<boolean> {
  const hasForeignKeys = target.refersTo.length > 0 || target.isReferred;
  if (!isKeyed(relation) || hasForeignKeys || !(await isAsMade(client, target, relation))) return false;
  const [index, { length }] = [keyIndexOf(target, relation), relation.key];
  return (
    (index?.columns.length ?? length) === length && !(await hasOtherUniqueIndex(client, target, relation))
  );
}

/**
 * Whether the table has the columns, with the types that a side table gets. Those at the sink may have been recreated since it was made, and a
 * target of other types takes the rows as text alone.
 */
async function isAsMade(client: Client, table: TargetTable, { columns }: Relation): Promise<boolean> {
  const types = await resolveTypes(client, columns);
  return columns.every(({ name }, i) =>
    table.columns.some((column) => column.name === name && column.typeOid === types[i]!.oid),
  );
}

/** In a transaction: the rows, and the record that the range is done. */
export async function copyRange(
  client: Client,
  { connector, table, side }: RangeCopy,
  { form, chunks, lsn: point }: CopyChunk,
  range: PageRange,
): Promise<CopiedRange> {
  const into = `${sqlName(side)} (${sqlList(columnNames(table.relation))})`;
  const rows = await copyIn(client, `copy ${into} from stdin (format ${form})`, chunks);
  const copied = { ...range, point, rows };
  await recordRange(client, connector.connectorId, table.relation.id, copied);
  return copied;
}

/** In a transaction: makes the rows visible and records the copy. */
export async function joinRanges(
  client: Client,
  config: PostgresSinkConfig,
  copy: RangeCopy & { readonly mode: CopyMode; readonly phase: TellPhase },
  ranges: readonly CopiedRange[],
  known: KnownTable,
): Promise<CopyOutcome> {
  const { connector, table } = copy;
  const points = ranges.map(({ point }) => point).sort((a, b) => (a < b ? -1 : 1));
  const [first = zeroLsn, point = first] = [points[0], points.at(-1)];
  const areMixed = first !== point;
  const existing = await readTargetTable(client, copy.target);
  copy.phase(existing === null ? "Finishing" : "Writing", null);
  const merged = existing && (await mergeIntoExisting(client, config, copy, existing, areMixed, known));
  if (merged === null) await renameIntoPlace(client, copy, areMixed);
  const { hasOthers, fitted } = merged ?? { hasOthers: false, fitted: null };
  const isMerged = areMixed || hasOthers;
  const inAll = hasOthers ? zeroLsn : first;
  const made = { point, isMerged, first: isMerged ? inAll : null };
  const isUnproved = known.isUnproved && hasOthers;
  const outcome = await recordOutcome(client, connector, table, made, { ...known, isUnproved }, fitted, null);
  await dropCopy(client, connector.connectorId, table.relation.id);
  return { rows: ranges.reduce((sum, { rows }) => sum + rows, 0), ...outcome };
}

/** In the schema of the target, of which it gets the default privileges: it keeps them wherever it is moved. */
async function createSide(client: Client, { side, target, table }: RangeCopy): Promise<void> {
  const made = { schema: target.schema, name: side.name };
  await createTable(client, made, table);
  await client.query(`alter table ${sqlName(made)} set schema ${escapeIdentifier(side.schema)}`);
}

/** Renames the side table to be the target. The key is added last: loading is faster without an index. */
async function renameIntoPlace(
  client: Client,
  { table, target, side }: RangeCopy,
  areMixed: boolean,
): Promise<void> {
  await client.query(`alter table ${sqlName(side)} set schema ${escapeIdentifier(target.schema)}`);
  const moved = { schema: target.schema, name: side.name };
  await client.query(`alter table ${sqlName(moved)} rename to ${escapeIdentifier(target.name)}`);
  const finish = () => addKeyOf(client, target, table);
  if (areMixed && (await succeeds(client, sqlState.uniqueViolation, finish))) return;
  if (areMixed) await deduplicate(client, target, table.relation);
  await finish();
}

/**
 * Ranges of several points may hold a row twice, if it moved from one range to another. Either may stay, as the stream brings the row's
 * last state.
 */
async function deduplicate(client: Client, table: TargetName, relation: Relation): Promise<void> {
  const key = sqlList(keyNames(relation));
  await client.query(
    `delete from ${sqlName(table)} where ctid in (select unnest((array_agg(ctid))[2:]) from ${sqlName(table)} ` +
      `group by ${key} having count(*) > 1)`,
  );
}

/** Merges the rows into a target that exists. `hasOthers`: it keeps rows that the copy does not have. */
async function mergeIntoExisting(
  client: Client,
  config: PostgresSinkConfig,
  copy: RangeCopy & { readonly mode: CopyMode },
  before: TargetTable,
  areMixed: boolean,
  known: KnownTable,
): Promise<{ readonly hasOthers: boolean; readonly fitted: TargetTable }> {
  const { table, mode, side } = copy;
  const { relation } = table;
  const knownAlone = { ...known, isShared: false };
  const { existing, isKeyChanged, key } = await fitExisting(client, config, before, copy, knownAlone);
  if (areMixed) await deduplicate(client, side, relation);
  const isEmpty = mode !== "merge" && !(await hasRows(client, existing));
  const hasOthers = !isEmpty && mode !== "replace" && !isKeyChanged;
  const rows = { relation, isMerged: hasOthers, keepsOrigin: known.isCopied, staging: sqlName(side) };
  await mergeCopy(client, existing, { ...rows, isIntoEmpty: isEmpty });
  if (key) await addKey(client, existing.target, key);
  return { hasOthers, fitted: existing };
}
