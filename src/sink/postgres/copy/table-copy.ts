// Takes the copy of one table. Into a table that is new or empty the bytes go from socket to socket; into one that holds rows
// they go through a staging table and replace what has the same key.

import { type Client, escapeIdentifier } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { zeroLsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CopyRequest } from "../../sink.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { type WrittenRows, withRefusedKey } from "../apply/refused-key.ts";
import { recordCopy, type TableCopyRecord } from "../bookkeeping/bookkeeping.ts";
import { type ConnectorAtSink, lockForCopy } from "../bookkeeping/connector-lock.ts";
import { copyRecord } from "../bookkeeping/copy-ledger.ts";
import { endSetAside } from "../bookkeeping/set-aside-tables.ts";
import { recordShape, type ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { type Fitted, fitTable } from "../schema/table-fit.ts";
import { addKey, addKeyOf, createTable } from "../schema/table-schema.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { keyIndexOf, readTargetTable, type TargetTable } from "../schema/target-table.ts";
import { copyIn } from "./copy-in.ts";
import { mergeCopy } from "./copy-merge.ts";
import { requireCounted } from "./held-changes.ts";
import { settleOwed } from "./owed-rows.ts";
import { tracedCopyIn } from "./traced-copy.ts";

const staging = "pg_temp.millrace_copy";

export interface CopyOutcome {
  readonly rows: number;
  /** Null: rows of a table whose first copy is still to come. */
  readonly record: TableCopyRecord | null;
  /** What the table follows by now; null: what it did. */
  readonly shape: ShapeRecord | null;
  /** Rows of the table are to be copied still. */
  readonly owesMore: boolean;
}

/** What the sink knows of a table that is to be copied into. */
export interface KnownTable {
  /** The columns that it has followed; null: nothing is known of them. */
  readonly shape: ShapeRecord | null;
  /** See `TableCopyRecord`. */
  readonly targets: readonly string[];
  /** One of its columns that has to take null. */
  readonly nullColumn: string | null;
  /** A row that is refused is to be told by its key. */
  readonly isTraced: boolean;
  /** Its changes are kept meanwhile, under this mark; null: they are not. */
  readonly keptMark: string | null;
  /** The sink has a copy of it. */
  readonly isCopied: boolean;
}

/** All in one transaction: table, rows, and that the copy was made. */
export async function copyIntoTarget(
  client: Client,
  config: PostgresSinkConfig,
  naming: TargetNaming,
  connector: ConnectorAtSink,
  request: CopyRequest,
  known: KnownTable,
): Promise<CopyOutcome> {
  const { table, mode } = request;
  const target = naming.target(table.relation);
  await client.query("begin");
  await lockForCopy(client, connector);
  const isShared = naming.isShared(table.relation);
  const { existing, isKeyChanged, key } = await ensureTable(client, config, target, request, {
    ...known,
    isShared,
  });
  const isEmpty = existing === null || (mode === "initial" && !(await hasRows(client, existing)));
  const columns = sqlList(table.relation.columns.map((column) => column.name));
  const isHashed = table.relation.isKeyedByHash === true;
  // Which of the rows that it did not bring are this table's own is not known. By another key the rows that are there cannot be found.
  const isReplacing = (mode === "replace" || isKeyChanged) && !isShared;
  const isMerged = !isEmpty && !isReplacing && table.relation.key.length > 0;
  const isTraced = known.isTraced && request.form === "text" && !existing?.isReferred;
  const take = async (sql: string) =>
    isTraced
      ? await tracedCopyIn(client, sql, table.relation, request.chunks)
      : await copyIn(client, sql, request.chunks);
  let rows: number;
  if (isEmpty && !isHashed) {
    const write = () => take(copySql(sqlName(target), columns, request));
    rows = existing === null ? await write() : await withLateChecks(client, existing, write);
    if (existing === null) await addKeyOf(client, target, table);
    else await withRefusedKey(client, writtenTo(existing, table.relation));
  } else {
    await client.query(
      `create temporary table millrace_copy on commit drop as select ${columns} from ${sqlName(target)} with no data`,
    );
    rows = await take(copySql(staging, columns, request));
    const into = existing ?? (await readTargetTable(client, target));
    if (!into) throw new Error("a table is not there after it was made");
    const { relation } = table;
    await withRefusedKey(client, { target: into, relation, rows: staging, isMerged }, () =>
      withLateChecks(client, into, () => mergeCopy(client, into, { staging, relation, isMerged })),
    );
    if (isHashed && !key && !keyIndexOf(into, table.relation)) await addKeyOf(client, target, table);
  }
  if (key) await addKey(client, target, key);
  const keys = request.part?.kind === "rows" ? request.part.keys : null;
  if (keys !== null && !isMerged) throw alteredMeanwhile(table);
  // Other rows may still be missing.
  const first = keys === null ? null : zeroLsn;
  const made = { point: request.lsn, isMerged, first };
  const outcome = await recordOutcome(client, connector, table, made, known, existing, keys);
  await client.query("commit");
  return { rows, ...outcome };
}

/**
 * With the transaction of the copy. `existing`: what it was made into; null: the table is new. `owed`: keys of the rows that it is a
 * copy of; null: of all.
 */
export async function recordOutcome(
  client: Client,
  { connectorId }: ConnectorAtSink,
  table: TableShape,
  made: Pick<TableCopyRecord, "point" | "isMerged" | "first">,
  known: KnownTable,
  existing: TargetTable | null,
  owed: readonly RowKey[] | null,
): Promise<Omit<CopyOutcome, "rows">> {
  if (owed !== null && !known.isCopied) return { record: null, shape: null, owesMore: false };
  const record = copyRecord(table, { ...made, targets: known.targets });
  await recordCopy(client, connectorId, record);
  const shape = await recordShape(client, connectorId, table.relation, made.point, known.shape, existing);
  await endSetAside(client, connectorId, table.relation);
  if (known.keptMark !== null) await requireCounted(client, connectorId, table.relation, known.keptMark);
  const owesMore = !(await settleOwed(client, connectorId, table.relation.id, owed));
  return { record, shape, owesMore };
}

/** `existing`: the table that was there; null when it was made. */
async function ensureTable(
  client: Client,
  config: PostgresSinkConfig,
  target: TargetName,
  request: CopyRequest,
  known: KnownTable & { readonly isShared: boolean },
): Promise<Pick<Fitted, "isKeyChanged" | "key"> & { readonly existing: TargetTable | null }> {
  const existing = await readTargetTable(client, target);
  if (existing) return await fitExisting(client, config, existing, request, known);
  await createTable(client, target, request.table);
  return { existing: null, isKeyChanged: false, key: null };
}

/** Makes a table that is there fit for the copy. Returns it as it is then. */
export async function fitExisting(
  client: Client,
  config: PostgresSinkConfig,
  existing: TargetTable,
  { table, mode }: Pick<CopyRequest, "table" | "mode">,
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
  return {
    ...fitted,
    existing: isChanged ? ((await readTargetTable(client, target)) ?? existing) : existing,
  };
}

function writtenTo(target: TargetTable, relation: Relation): WrittenRows {
  return { target, relation, rows: target.ownRows, isMerged: false };
}

function alteredMeanwhile({ relation }: TableShape): MillraceError {
  return new MillraceError(
    "table_changed",
    `Table ${qualifiedName(relation)} was altered before rows of it could be copied that the sink lacks: they are copied again.`,
  );
}

export async function hasRows(client: Client, table: TargetTable): Promise<boolean> {
  const { rowCount } = await client.query(`select from ${table.ownRows} limit 1`);
  return rowCount === 1;
}

function copySql(into: string, columns: string, request: CopyRequest): string {
  const list = columns === "" ? "" : ` (${columns})`;
  return `copy ${into}${list} from stdin (format ${request.form})`;
}
