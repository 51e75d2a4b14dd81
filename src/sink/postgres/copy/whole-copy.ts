// Copies one table in one transaction. If the target is new or empty, bytes go from socket to socket. Otherwise they go through a staging
// table and replace rows of the same key.

import { type Client, escapeIdentifier } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { zeroLsn } from "../../../change/lsn.ts";
import { columnNames, type TableShape } from "../../../change/relation.ts";
import { succeeds } from "../../../connection/in-savepoint.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { copyInvalidated } from "../../copy-invalidated.ts";
import type { CopyChunk, CopyMode } from "../../copy-sink.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { recordCopy, type TableCopyRecord } from "../bookkeeping/bookkeeping.ts";
import type { ConnectorAtSink } from "../bookkeeping/connector-lock.ts";
import { copyRecord } from "../bookkeeping/copy-ledger.ts";
import { deleteIncomplete } from "../bookkeeping/incomplete-rows.ts";
import { endSetAside } from "../bookkeeping/set-aside-tables.ts";
import { recordShape, type ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { makeComputed } from "../generated/make-computed.ts";
import type { TakeCopiedRows } from "../history/histories.ts";
import { historyIsBehind } from "../history/history-ledger.ts";
import { withRefusedKey } from "../refusals/refused-key.ts";
import { tracedCopyIn } from "../refusals/traced-copy.ts";
import { type Fitted, fitTable } from "../schema/migration/table-fit.ts";
import { addKey, addKeyOf, createTable } from "../schema/table-schema.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { keyIndexOf, readTargetTable, type TargetTable } from "../schema/target-table.ts";
import { mergeCopy } from "./copy-merge.ts";

const staging = "pg_temp.millrace_copy";

export interface CopyOutcome {
  readonly rows: number;
  readonly record: TableCopyRecord;
  /** The shape that the target follows now; null: it did not change. */
  readonly shape: ShapeRecord | null;
  /** Rows of the table are incomplete. */
  readonly isStillIncomplete: boolean;
  /** The table's history, if it has one, is to be compared with its rows. */
  readonly isHistoryBehind: boolean;
  /** Rows that the source does not have are still there, and the copy stays void: another one is to remove them. */
  readonly keepsAbsent?: boolean;
}

type Written = Pick<CopyOutcome, "rows" | "keepsAbsent">;

/** What the sink knows of a table that is about to be copied. */
export interface KnownTable {
  /** The shape that the target follows; null: not known. */
  readonly shape: ShapeRecord | null;
  /** See `TableCopyRecord`. */
  readonly targets: readonly string[];
  /** A column of the target that must take null. */
  readonly nullColumn: string | null;
  /** The last copy was refused: find the refused row and report its key. */
  readonly isTraced: boolean;
  /** The sink has a copy of it. */
  readonly isCopied: boolean;
  /** See `TableCopyRecord`. */
  readonly isUnproved: boolean;
}

export interface WholeCopy extends CopyChunk {
  readonly mode: CopyMode;
  /** Of rows that are copied by their keys: those that the source does not have are removed. */
  readonly removesAbsent?: boolean;
  /** Where rows of other tables refer to rows that the source does not have, these may stay for now: see `CopyOutcome.keepsAbsent`. */
  readonly mayKeepAbsent?: boolean;
  /** Of rows that are copied by their keys: gives them to the table's history. Null: the whole of it is compared later. */
  readonly toHistory?: TakeCopiedRows | null;
}

/** In a transaction: the table, its rows, and the record of the copy. */
export async function copyIntoTarget(
  client: Client,
  config: PostgresSinkConfig,
  naming: TargetNaming,
  connector: ConnectorAtSink,
  request: WholeCopy,
  known: KnownTable,
): Promise<CopyOutcome> {
  const { table, mode } = request;
  const target = naming.target(table.relation);
  const isShared = naming.isShared(table.relation);
  const before = await readTargetTable(client, target);
  if (!before) await createTable(client, target, table);
  const fitted = before && (await fitExisting(client, config, before, request, { ...known, isShared }));
  const { existing, isKeyChanged, key } = fitted ?? { existing: null, isKeyChanged: false, key: null };
  const isEmpty = existing === null || (mode !== "merge" && !(await hasRows(client, existing)));
  const isHashed = table.relation.isKeyedByHash === true;
  // In a shared target nobody knows which rows are this table's own, so none is deleted. If the key changed, the old rows cannot be matched.
  const isReplacing = (mode === "replace" || isKeyChanged) && !isShared;
  const isMerged = !isEmpty && !isReplacing && table.relation.key.length > 0;
  const landing = { target, existing, isMerged, isKeyAdded: key !== null };
  const write = isEmpty && !isHashed ? writeToTarget : writeThroughStaging;
  const written = await write(client, request, known, landing);
  if (key) await addKey(client, target, key);
  const keys = request.part?.kind === "rows" ? request.part.keys : null;
  if (keys !== null && !(isMerged && known.isCopied)) throw copyInvalidated(table.relation, "was altered");
  // Rows that were there before need all changes, which may find others missing that have moved meanwhile.
  const first = isMerged ? zeroLsn : null;
  const made = { point: written.keepsAbsent ? zeroLsn : request.lsn, isMerged, first };
  const toHistory = keys !== null && existing !== null ? (request.toHistory ?? null) : null;
  const place = { at: request.lsn, timeUs: request.timeUs };
  if (keys !== null && existing !== null) await toHistory?.(client, existing, place, keys);
  // A copy that leaves other rows there proves nothing of them.
  const left = { ...known, isUnproved: known.isUnproved && (isMerged || isShared) };
  const isHistoryBehind = toHistory === null;
  const outcome = await recordOutcome(client, connector, table, made, left, existing, keys, isHistoryBehind);
  return { ...written, ...outcome };
}

/** Where the rows of a copy go. */
interface Landing {
  readonly target: TargetName;
  /** Null: the target was made just now. */
  readonly existing: TargetTable | null;
  /** Rows that are there stay, but for those of the same key. */
  readonly isMerged: boolean;
  /** The target gets its key when the rows are there. */
  readonly isKeyAdded: boolean;
}

/** The target is empty. */
async function writeToTarget(
  client: Client,
  request: WholeCopy,
  known: KnownTable,
  { target, existing, isMerged }: Landing,
): Promise<Written> {
  const { relation } = request.table;
  const write = () => take(client, request, known, existing, sqlName(target));
  const rows = existing === null ? await write() : await withLateChecks(client, existing, write);
  request.phase?.("Finishing", null);
  if (existing === null) await addKeyOf(client, target, request.table);
  else await withRefusedKey(client, { relation, isMerged, target: existing, rows: existing.ownRows });
  return { rows };
}

/** As `writeToTarget`: the target has rows, or equal rows of the copy are one. */
async function writeThroughStaging(
  client: Client,
  request: WholeCopy,
  known: KnownTable,
  { target, existing, isMerged, isKeyAdded }: Landing,
): Promise<Written> {
  const { table, part, removesAbsent, mayKeepAbsent = false } = request;
  const { relation } = table;
  await client.query(
    `create temporary table millrace_copy on commit drop as select ${sqlList(columnNames(relation))} from ${sqlName(target)} with no data`,
  );
  const rows = await take(client, request, known, existing, staging);
  request.phase?.("Writing", null);
  const into = existing ?? (await readTargetTable(client, target));
  if (!into) throw new Error("a table is not there after it was made");
  const ofKeys = removesAbsent && part?.kind === "rows" ? part.keys : null;
  const copied = { staging, relation, keepsOrigin: known.isCopied, ofKeys };
  const merge = (isMerged: boolean) => mergeCopy(client, into, { ...copied, isMerged });
  const tryMerge = () => succeeds(client, sqlState.foreignKeyViolation, () => merge(isMerged));
  const keepsAbsent = mayKeepAbsent && !(await tryMerge());
  if (keepsAbsent || !mayKeepAbsent) await merge(keepsAbsent || isMerged);
  if (relation.isKeyedByHash === true && !isKeyAdded && !keyIndexOf(into, relation))
    await addKeyOf(client, target, table);
  return { rows, keepsAbsent };
}

/** Takes the rows into `table`, as SQL. After a refusal it finds the row. */
async function take(
  client: Client,
  request: WholeCopy,
  { isTraced }: KnownTable,
  existing: TargetTable | null,
  table: string,
): Promise<number> {
  const { form, chunks } = request;
  const { relation } = request.table;
  const columns = relation.columns.length === 0 ? "" : ` (${sqlList(columnNames(relation))})`;
  const sql = `copy ${table}${columns} from stdin (format ${form})`;
  if (isTraced && form === "text" && !existing?.isReferred)
    return await tracedCopyIn(client, sql, relation, chunks);
  return await copyIn(client, sql, chunks);
}

/**
 * In the transaction of the copy. `existing`: the target before the copy; null: it is new. `keys`: of the rows that were copied, which are complete
 * now. Null: the whole table was copied, and all rows are complete. An empty list: the whole table was copied, and some rows may be incomplete.
 */
export async function recordOutcome(
  client: Client,
  { connectorId }: ConnectorAtSink,
  table: TableShape,
  made: Pick<TableCopyRecord, "point" | "isMerged" | "first">,
  known: KnownTable,
  existing: TargetTable | null,
  keys: readonly RowKey[] | null,
  isHistoryBehind = true,
): Promise<Omit<CopyOutcome, "rows">> {
  const record = copyRecord(table, { ...made, targets: known.targets, isUnproved: known.isUnproved });
  const isPart = keys !== null && keys.length > 0;
  await recordCopy(client, connectorId, record, isPart);
  const shape = await recordShape(client, connectorId, table.relation, made.point, known.shape, existing);
  await endSetAside(client, connectorId, table.relation);
  if (isHistoryBehind) await historyIsBehind(client, connectorId, table.relation.id);
  const isStillIncomplete = !(await deleteIncomplete(client, connectorId, table.relation.id, keys));
  return { record, shape, isStillIncomplete, isHistoryBehind };
}

/** Alters an existing target so that it takes the copy. Returns it as it is then. */
export async function fitExisting(
  client: Client,
  config: PostgresSinkConfig,
  existing: TargetTable,
  { table, mode }: Pick<WholeCopy, "table" | "mode">,
  { shape, nullColumn, isShared }: KnownTable & { readonly isShared: boolean },
): Promise<Pick<Fitted, "isKeyChanged" | "key"> & { readonly existing: TargetTable }> {
  const { target } = existing;
  const { relation } = table;
  const { isChanged, ...fitted } = await fitTable(
    client,
    config.migration_strategy,
    existing,
    shape,
    relation,
    { areReplaced: mode === "replace" && !isShared, isShared },
  );
  if (existing.columns.some(({ name, notNull }) => name === nullColumn && notNull)) {
    const column = escapeIdentifier(nullColumn ?? "");
    await client.query(`alter table ${sqlName(target)} alter column ${column} drop not null`);
  }
  const now = isChanged ? ((await readTargetTable(client, target)) ?? existing) : existing;
  // Where the server refuses, the next look at the tables tells why.
  if (!isShared) await makeComputed(client, now, table, config.migration_strategy, () => {});
  return { ...fitted, existing: now };
}

export async function hasRows(client: Client, table: TargetTable): Promise<boolean> {
  const { rowCount } = await client.query(`select from ${table.ownRows} limit 1`);
  return rowCount === 1;
}
