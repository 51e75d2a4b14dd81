// Reads one table as of a snapshot, by COPY TO STDOUT in a pooled session.
// https://www.postgresql.org/docs/current/sql-copy.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { CopyPart, RowKey } from "../../../change/copy-part.ts";
import type { TableSize } from "../../../change/page-range.ts";
import { type Column, qualifiedName, type TableShape } from "../../../change/relation.ts";
import { keysSetting, within } from "../../../comparison/digest-sql.ts";
import type { Permits } from "../../../concurrency/semaphore.ts";
import { copyOut, type RowCount } from "../../../connection/copy/copy-out.ts";
import {
  destroyClient,
  liftTransactionTimeout,
  noticeLostClient,
} from "../../../connection/postgres-client.ts";
import type { SessionPool } from "../../../connection/session-pool.ts";
import { watchSession } from "../../../connection/session-watch.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { hashedColumnSql, saltSetting } from "../shapes/column-hash.ts";
import { transformedQuery } from "../shapes/row-transform.ts";
import { readStorage } from "../shapes/table-shapes.ts";
import { describeReadFailure } from "./read-failure.ts";
import { lockForReading } from "./read-lock.ts";
import type { ExportedSnapshot } from "./snapshot-point.ts";
import { hasRanges, hasSameKey, readTableSize } from "./table-size.ts";

export interface TableCopyRequest {
  readonly connection: PostgresConnection;
  readonly table: TableShape;
  readonly point: ExportedSnapshot;
  /** Sessions in which tables are read. */
  readonly sessions: SessionPool;
  /** For the sessions that check these. */
  readonly permits: Permits;
  readonly form: TupleForm;
  /** Absent: the whole table. */
  readonly part?: CopyPart | undefined;
  /** Kept up to date while rows are read. */
  readonly count: RowCount;
  readonly selection: TableSelection;
  readonly signal: AbortSignal;
  /** Called when the table is not what its shape says. */
  readonly changed: () => void;
}

/**
 * Applies where the connection has no lock_timeout: a locked table must not delay the others, and keep the snapshot
 * open.
 */
const lockTimeoutSql =
  "select set_config('lock_timeout', '60s', false) where current_setting('lock_timeout') = '0'";

/** Null: the table can only be copied whole, or it is gone. */
export async function measureTable(
  request: Omit<TableCopyRequest, "form" | "part" | "point" | "count" | "selection" | "changed">,
): Promise<TableSize | null> {
  const { connection, table, sessions, permits, signal } = request;
  if (!hasRanges(table)) return null;
  const client = await sessions.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    using _watch = watchSession({ connection, side: "source", client, permits, signal });
    await noticeLostClient(client);
    await client.query(lockTimeoutSql);
    const size = await readTableSize(client, table);
    await sessions.giveBack(client);
    return size;
  } catch (error) {
    destroyClient(client);
    if (signal.aborted) throw signal.reason;
    throw describeReadFailure(error, client.user ?? "", table);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Yields the chunks of the copy. */
export async function* copyTableChunks(request: TableCopyRequest): AsyncGenerator<Uint8Array> {
  const { form, part, count } = request;
  yield* readAsOf(request, count, (client) => copyStatement(client, request, form, part));
  if (form === "binary") count.rows--;
}

/**
 * Yields what a COPY of the table gives, as of the point. `prepare` returns its statement. Takes a session with the first chunk; leaving the
 * loop early breaks that session.
 */
export async function* readAsOf(
  request: Omit<TableCopyRequest, "form" | "part" | "count">,
  count: RowCount,
  prepare: (client: Client, whole: string) => Promise<string>,
): AsyncGenerator<Uint8Array> {
  const { connection, table, point, sessions, permits, signal, changed } = request;
  const client = await sessions.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  let finished = false;
  // While nobody asks for a chunk, the server rightly waits for us.
  let isClientBusy = false;
  using _watch = watchSession({
    connection,
    side: "source",
    client,
    permits,
    isClientBusy: () => isClientBusy,
    signal,
  });
  try {
    await liftTransactionTimeout(client);
    await noticeLostClient(client);
    const snapshot = escapeLiteral(point.snapshotName);
    await client.query(
      `begin isolation level repeatable read read only; set transaction snapshot ${snapshot}`,
    );
    await client.query(lockTimeoutSql);
    await lockForReading(client, table);
    await requireSameNames(client, table, wholeTable(table));
    await requireSameStorage(client, table);
    await requireSameColumns(client, table);
    const sql = await prepare(client, wholeTable(table));
    for await (const chunk of copyOut(client, sql, count)) {
      isClientBusy = true;
      yield chunk;
      isClientBusy = false;
    }
    await client.query("commit");
    finished = true;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const failure = describeReadFailure(error, client.user ?? "", table);
    if (failure.code === "table_changed") changed();
    throw failure;
  } finally {
    signal.removeEventListener("abort", abort);
    if (finished) await sessions.giveBack(client);
    else destroyClient(client);
  }
}

/** Yields the places of the keys that no row has, as of the point: one in each line. */
export async function* missingKeyChunks(
  request: Omit<TableCopyRequest, "form" | "part" | "count">,
  keys: readonly RowKey[],
): AsyncGenerator<Uint8Array> {
  const { table, selection } = request;
  yield* readAsOf(request, { rows: 0 }, async (client, whole) => {
    await setSalt(client, selection);
    await beginPart(client, table, { kind: "rows", keys });
    const { columns, values } = keySql(table, selection);
    // The table's columns are named after themselves: a subquery keeps them apart from the keys.
    return `copy (select place - 1 from ${wantedKeys} where (${values}) not in (select ${columns} from ${whole} where ${isInPart(table, selection, { kind: "rows", keys })})) to stdout`;
  });
}

/** In the syntax of FROM. */
function wholeTable({ isPartitioned, relation }: TableShape): string {
  return `${isPartitioned ? "" : "only "}${sqlName(relation)}`;
}

async function copyStatement(
  client: Client,
  { table, selection, point }: Pick<TableCopyRequest, "table" | "selection" | "point">,
  form: TupleForm,
  part: CopyPart | undefined,
): Promise<string> {
  const whole = wholeTable(table);
  if (part) await beginPart(client, table, part);
  const from = part ? `${whole} where ${isInPart(table, selection, part)}${orderOf(table, part)}` : whole;
  const transformed = transformedQuery(table.relation, selection, from, point.lsn);
  if (transformed !== null) await setSalt(client, selection);
  return copySql(table, transformed ?? selectSql(table, from, part), form);
}

/** Rows of some keys come in the same order each time, so that they make the same requests. */
function orderOf({ relation }: TableShape, part: CopyPart): string {
  return part.kind === "rows"
    ? ` order by ${columnList(relation.key.map((at) => relation.columns[at]!))}`
    : "";
}

/** As a parameter, so that the salt is in no statement's text. */
export async function setSalt(client: Client, { salt }: TableSelection): Promise<void> {
  await client.query("select set_config($1, $2, true)", [saltSetting, salt]);
}

/**
 * A rewrite (ALTER TABLE … TYPE, VACUUM FULL, TRUNCATE) after the snapshot may leave nothing for it to see. Under the
 * lock none can happen.
 */
async function requireSameStorage(client: Client, table: TableShape): Promise<void> {
  if ((await readStorage(client, table.relation.id)) === table.storage) return;
  throw new MillraceError(
    "table_changed",
    `Table ${qualifiedName(table.relation)} was rewritten before its copy began: the copy begins again.`,
  );
}

/**
 * The snapshot may be later than the shape that was read of the table. A column that was added in between has values in
 * the snapshot: a copy without that column would lose them. So would it lose those of a column that the sink computes,
 * and that was computed at the source, too.
 */
async function requireSameColumns(client: Client, table: TableShape): Promise<void> {
  const { generated = [], relation } = table;
  const { id, columns, withheld } = relation;
  const { rows } = await client.query<{ number: number; name: string; isGenerated: boolean }>(
    `select attnum as number, attname as name, attgenerated <> '' as "isGenerated" from pg_attribute
      where attrelid = $1 and attnum > 0 and not attisdropped`,
    [id],
  );
  const known = new Map(columns.map(({ number, name }) => [number, name]));
  const computed = new Set(generated.map(({ column }) => column.number));
  const isSame = ({ number, name, isGenerated }: (typeof rows)[number]) =>
    known.get(number) === name || (withheld.includes(number) && (isGenerated || !computed.has(number)));
  if (!rows.every(isSame)) throw alteredBefore(table);
}

/**
 * COPY finds the table and its columns by their current names, even in an older snapshot; since then, others may have
 * taken these names. A result's description has the table's OID and the column numbers.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html (RowDescription)
 */
async function requireSameNames(client: Client, table: TableShape, from: string): Promise<void> {
  const { id, columns } = table.relation;
  const stored = columns.filter(({ number }) => number > 0);
  // Every table has a tableoid, also one without columns.
  const list = ["tableoid", ...stored.map(({ name }) => escapeIdentifier(name))].join(", ");
  const { fields } = await client.query(`select ${list} from ${from} limit 0`);
  const [own, ...others] = fields;
  const isSame = own?.tableID === id && stored.every(({ number }, i) => others[i]?.columnID === number);
  if (!isSame) throw alteredBefore(table);
}

function alteredBefore(table: TableShape): MillraceError {
  return new MillraceError(
    "table_changed",
    `Table ${qualifiedName(table.relation)} was altered before its copy began: the copy begins again.`,
  );
}

/** Other parts may have been copied already: if the key has changed since, their rows could not be told from these. */
async function beginPart(client: Client, table: TableShape, part: CopyPart): Promise<void> {
  if (!(await hasSameKey(client, table))) throw alteredBefore(table);
  // What remains is a scan of exactly the range's pages (TID range scan), or of the key's index.
  await client.query("set local enable_seqscan = off");
  if (part.kind === "range") return;
  // As a parameter, so that the keys are in no statement's text.
  await client.query("select set_config($1, $2, true)", [keysSetting, JSON.stringify(part.keys)]);
}

export function isInPart({ relation }: TableShape, selection: TableSelection, part: CopyPart): string {
  if (part.kind === "range") return within(part.range);
  const { columns, values } = keySql({ relation }, selection);
  return `(${columns}) in (select ${values} from ${wantedKeys})`;
}

const wantedKeys = `json_array_elements(current_setting('${keysSetting}')::json) with ordinality as wanted(value, place)`;

/** The key's columns as the table has them, and as the wanted keys do. */
function keySql(
  { relation }: Pick<TableShape, "relation">,
  selection: TableSelection,
): { readonly columns: string; readonly values: string } {
  const key = relation.key.map((i) => relation.columns[i]!);
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = key.map(({ name }) =>
    hashed.includes(name) ? hashedColumnSql(name) : escapeIdentifier(name),
  );
  // Qualified: a column of the copied table may have the same name.
  const values = key.map(({ typeName }, i) => `(wanted.value->>${i})::${typeName}`);
  return { columns: stored.join(", "), values: values.join(", ") };
}

/**
 * COPY takes a query for a part of a table, and for partitioned tables and generated columns, which it refuses by name.
 * ONLY leaves out inheritance children. Null: use the table's name.
 */
function selectSql({ relation, isPartitioned }: TableShape, from: string, part?: CopyPart): string | null {
  const isPlain = relation.columns.length > 0 && !relation.columns.some(({ isGenerated }) => isGenerated);
  if (!part && !isPartitioned && isPlain) return null;
  return `select ${columnList(relation.columns)} from ${from}`;
}

function copySql({ relation }: TableShape, query: string | null, form: TupleForm): string {
  const source = query === null ? `${sqlName(relation)} (${columnList(relation.columns)})` : `(${query})`;
  return `copy ${source} to stdout (format ${form})`;
}

function columnList(columns: readonly Column[]): string {
  return columns.map(({ name }) => escapeIdentifier(name)).join(", ");
}
