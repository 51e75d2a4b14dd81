// Reads one table as of a snapshot, by COPY TO STDOUT on a connection of its own.
// https://www.postgresql.org/docs/current/sql-copy.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { CopyPart } from "../../../change/copy-part.ts";
import type { TableSize } from "../../../change/page-range.ts";
import { type Column, qualifiedName, type TableShape } from "../../../change/relation.ts";
import { destroyClient, liftTransactionTimeout } from "../../../connection/postgres-client.ts";
import type { SessionPool } from "../../../connection/session-pool.ts";
import { watchSession } from "../../../connection/session-watch.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TakesTurns } from "../../../connection/turns.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { hashedColumnSql, saltSetting } from "../shapes/column-hash.ts";
import { renderedQuery } from "../shapes/row-rendering.ts";
import { readStorage } from "../shapes/table-shapes.ts";
import { copyOut, type RowCount } from "./copy-out.ts";
import { describeReadFailure } from "./read-failure.ts";
import { lockForReading } from "./read-lock.ts";
import type { ExportedSnapshot } from "./snapshot-point.ts";
import { hasRanges, hasSameKey, readTableSize } from "./table-size.ts";

export interface TableCopyRequest {
  readonly connection: PostgresConnection;
  readonly table: TableShape;
  readonly point: ExportedSnapshot;
  /** In which tables are read. */
  readonly sessions: SessionPool;
  /** Of those who look after these sessions. */
  readonly turns: TakesTurns;
  readonly form: TupleForm;
  /** Absent: the whole table. */
  readonly part?: CopyPart | undefined;
  /** Kept up to date. */
  readonly count: RowCount;
  readonly selection: TableSelection;
  readonly signal: AbortSignal;
}

/** Where the connection has no bound of its own: whoever holds a table must not keep the others, and the snapshot, for longer. */
const lockTimeoutSql =
  "select set_config('lock_timeout', '60s', false) from pg_settings where name = 'lock_timeout' and setting = '0'";

/** Null: the table can only be copied whole, or is gone. */
export async function measureTable(
  request: Omit<TableCopyRequest, "form" | "part" | "point" | "count">,
): Promise<TableSize | null> {
  const { connection, table, sessions, turns, selection, signal } = request;
  if (!hasRanges(table, selection)) return null;
  const client = await sessions.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    using _watch = watchSession({ connection, side: "source", client, turns, signal });
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

/** The chunks of the copy. Takes a session at the first; leaving early breaks it. */
export async function* copyTableChunks(request: TableCopyRequest): AsyncGenerator<Uint8Array> {
  const { connection, table, point, sessions, turns, form, part, count, selection, signal } = request;
  const client = await sessions.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  let finished = false;
  // While nobody asks for a chunk, the server waits for us to read on.
  let isOurTurn = false;
  using _watch = watchSession({
    ...{ connection, side: "source", client, turns, isOurTurn: () => isOurTurn, signal },
  });
  try {
    await liftTransactionTimeout(client);
    await client.query("begin isolation level repeatable read read only");
    await client.query(`set transaction snapshot ${escapeLiteral(point.snapshotName)}`);
    await client.query(lockTimeoutSql);
    await lockForReading(client, table);
    await requireSameStorage(client, table);
    const whole = `${table.isPartitioned ? "" : "only "}${sqlName(table.relation)}`;
    await requireSameColumns(client, table);
    await requireSameNames(client, table, whole);
    if (part) await beginPart(client, table, part);
    const from = part ? `${whole} where ${isInPart(table, selection, part)}` : whole;
    const rendered = renderedQuery(table.relation, selection, from, point.lsn);
    if (rendered !== null) {
      // A value that is bound: no statement's text holds the salt.
      await client.query("select set_config($1, $2, true)", [saltSetting, selection.salt]);
    }
    const sql = copySql(table, rendered ?? selectSql(table, from, part), form);
    for await (const chunk of copyOut(client, sql, count)) {
      isOurTurn = true;
      yield chunk;
      isOurTurn = false;
    }
    if (form === "binary") count.rows--;
    await client.query("commit");
    finished = true;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describeReadFailure(error, client.user ?? "", table);
  } finally {
    signal.removeEventListener("abort", abort);
    if (finished) await sessions.giveBack(client);
    else destroyClient(client);
  }
}

/**
 * A rewrite (ALTER TABLE … TYPE, VACUUM FULL, TRUNCATE) after the snapshot was taken may have left nothing that the
 * snapshot sees. With the lock held, none can come any more.
 */
async function requireSameStorage(client: Client, table: TableShape): Promise<void> {
  if ((await readStorage(client, table.relation.id)) === table.storage) return;
  throw new MillraceError(
    "table_changed",
    `Table ${qualifiedName(table.relation)} was rewritten before its copy began: the copy begins again.`,
  );
}

/**
 * The snapshot may be later than the look at the table. A column that was added in between has values in the snapshot already:
 * a copy without it would lose them.
 */
async function requireSameColumns(client: Client, table: TableShape): Promise<void> {
  const { id, columns, withheld } = table.relation;
  const { rows } = await client.query<{ number: number; name: string }>(
    "select attnum as number, attname as name from pg_attribute where attrelid = $1 and attnum > 0 and not attisdropped",
    [id],
  );
  const known = new Map(columns.map(({ number, name }) => [number, name]));
  if (rows.every(({ number, name }) => known.get(number) === name || withheld.includes(number))) return;
  throw alteredBefore(table);
}

/**
 * COPY finds columns by the names that they have by now, whatever the snapshot is of: after it was taken, one may have got
 * another's name. A result tells the numbers of its columns.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html (RowDescription)
 */
async function requireSameNames(client: Client, table: TableShape, from: string): Promise<void> {
  const stored = table.relation.columns.filter(({ number }) => number > 0);
  const list = stored.map(({ name }) => escapeIdentifier(name)).join(", ");
  const { fields } = await client.query(`select ${list} from ${from} limit 0`);
  if (!stored.every(({ number }, i) => fields[i]?.columnID === number)) throw alteredBefore(table);
}

function alteredBefore(table: TableShape): MillraceError {
  return new MillraceError(
    "table_changed",
    `Table ${qualifiedName(table.relation)} was altered before its copy began: the copy begins again.`,
  );
}

const keysSetting = "millrace.keys";

/** Others may have been copied before: rows that had another key then could not be told from these. */
async function beginPart(client: Client, table: TableShape, part: CopyPart): Promise<void> {
  if (!(await hasSameKey(client, table))) throw alteredBefore(table);
  // What is left is the scan of the range's pages and no others, or of the key's index.
  await client.query("set local enable_seqscan = off");
  if (part.kind === "range") return;
  // Bound: no statement's text holds a key.
  await client.query("select set_config($1, $2, true)", [keysSetting, JSON.stringify(part.keys)]);
}

/** https://www.postgresql.org/docs/current/ddl-system-columns.html#DDL-SYSTEM-COLUMNS-CTID */
function isInPart({ relation }: TableShape, selection: TableSelection, part: CopyPart): string {
  if (part.kind === "range") {
    const { from, to } = part.range;
    return `ctid >= '(${from},0)'::tid${to === null ? "" : ` and ctid < '(${to},0)'::tid`}`;
  }
  const key = relation.key.map((i) => relation.columns[i]!);
  // By its table's name: a column of the table that is copied may be called as it is.
  const values = key.map(({ typeName }, i) => `(wanted.value->>${i})::${typeName}`);
  const keys = `json_array_elements(current_setting('${keysSetting}')::json) as wanted(value)`;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  const stored = key.map(({ name }) =>
    hashed.includes(name) ? hashedColumnSql(name) : escapeIdentifier(name),
  );
  return `(${stored.join(", ")}) in (select ${values.join(", ")} from ${keys})`;
}

/**
 * A query for a part, and rather than the table's name because COPY refuses partitioned tables; ONLY leaves out inheritance
 * children. Null: the table's name will do.
 */
function selectSql({ relation, isPartitioned }: TableShape, from: string, part?: CopyPart): string | null {
  if (!part && !isPartitioned && relation.columns.length > 0) return null;
  return `select ${columnList(relation.columns)} from ${from}`;
}

function copySql({ relation }: TableShape, query: string | null, form: TupleForm): string {
  const source = query === null ? `${sqlName(relation)} (${columnList(relation.columns)})` : `(${query})`;
  return `copy ${source} to stdout (format ${form})`;
}

function columnList(columns: readonly Column[]): string {
  return columns.map(({ name }) => escapeIdentifier(name)).join(", ");
}
