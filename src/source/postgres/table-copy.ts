// Reads one table as of a snapshot, by COPY TO STDOUT on a connection of its own.
// https://www.postgresql.org/docs/current/sql-copy.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { to as copyTo } from "pg-copy-streams";
import type { TupleForm } from "../../change/change-batch.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { destroyClient } from "../../connection/postgres-client.ts";
import { describePostgresError, sqlStateOf } from "../../connection/postgres-failure.ts";
import { watchSession } from "../../connection/session-watch.ts";
import { sqlName } from "../../connection/sql-name.ts";
import { sqlState } from "../../connection/sql-state.ts";
import type { PostgresConnection } from "../../connector/connection.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { saltSetting } from "./column-hash.ts";
import { mendReadDenial } from "./privileges.ts";
import { renderedQuery } from "./row-rendering.ts";
import type { ExportedSnapshot } from "./snapshot-point.ts";
import type { TableSelection } from "./table-selection.ts";
import { readStorage } from "./table-shapes.ts";

export interface TableCopyRequest {
  readonly connection: PostgresConnection;
  readonly table: TableShape;
  readonly point: ExportedSnapshot;
  readonly form: TupleForm;
  readonly selection: TableSelection;
  readonly signal: AbortSignal;
}

/** The chunks of the copy. Takes a session of the point's at the first; leaving early breaks it. */
export async function* copyTableChunks(request: TableCopyRequest): AsyncGenerator<Uint8Array> {
  const { connection, table, point, form, selection, signal } = request;
  const client = await point.sessions.take();
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  let finished = false;
  // While nobody asks for a chunk, the server waits for us to read on.
  let isOurTurn = false;
  using _watch = watchSession({ connection, side: "source", client, isOurTurn: () => isOurTurn, signal });
  try {
    await client.query("begin isolation level repeatable read read only");
    await client.query(`set transaction snapshot ${escapeLiteral(point.snapshotName)}`);
    await client.query(`lock table ${sqlName(table.relation)} in access share mode`);
    await requireSameStorage(client, table);
    const from = `${table.isPartitioned ? "" : "only "}${sqlName(table.relation)}`;
    await requireSameColumns(client, table);
    await requireSameNames(client, table, from);
    const rendered = renderedQuery(table.relation, selection, from, point.lsn);
    if (rendered !== null) {
      // A value that is bound: no statement's text holds the salt.
      await client.query("select set_config($1, $2, true)", [saltSetting, selection.salt]);
    }
    for await (const chunk of client.query(copyTo(copySql(table, rendered, form)))) {
      isOurTurn = true;
      yield chunk as Uint8Array;
      isOurTurn = false;
    }
    await client.query("commit");
    finished = true;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw mendReadDenial(error, client.user ?? "", table.relation) ?? describeCopyError(error, table);
  } finally {
    signal.removeEventListener("abort", abort);
    if (finished) await point.sessions.giveBack(client);
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

/** What went wrong with the table by now. */
const tableChanged: ReadonlySet<string> = new Set([
  sqlState.undefinedTable,
  sqlState.undefinedColumn,
  sqlState.invalidSchemaName,
]);

function describeCopyError(error: unknown, table: TableShape): MillraceError {
  if (!tableChanged.has(sqlStateOf(error) ?? "")) {
    return describePostgresError(error, "source", "source_connection_lost");
  }
  return new MillraceError(
    "table_changed",
    `Table ${qualifiedName(table.relation)} was altered or dropped before its copy began.`,
    { cause: error },
  );
}

/**
 * A query where something is made of the rows, and rather than the table's name because COPY refuses partitioned tables; ONLY
 * leaves out inheritance children.
 */
function copySql(table: TableShape, rendered: string | null, form: TupleForm): string {
  const { columns } = table.relation;
  const list = columns.map((column) => escapeIdentifier(column.name)).join(", ");
  const target = sqlName(table.relation);
  const only = table.isPartitioned ? "" : "only ";
  const query = table.isPartitioned || columns.length === 0 ? `select ${list} from ${only}${target}` : null;
  const source = rendered ?? query;
  return `copy ${source === null ? `${target} (${list})` : `(${source})`} to stdout (format ${form})`;
}
