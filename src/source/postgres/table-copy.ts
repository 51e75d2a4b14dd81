// Reads one table as of a snapshot, by COPY TO STDOUT on a connection of its own.
// https://www.postgresql.org/docs/current/sql-copy.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { to as copyTo } from "pg-copy-streams";
import type { TupleForm } from "../../change/change-batch.ts";
import type { TableShape } from "../../change/relation.ts";
import { destroyClient } from "../../connection/postgres-client.ts";
import { describePostgresError } from "../../connection/postgres-failure.ts";

/** The chunks of the copy. Connects at the first; leaving early breaks the connection. */
export async function* copyTableChunks(
  connect: () => Promise<Client>,
  table: TableShape,
  snapshotName: string,
  form: TupleForm,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const client = await connect();
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  let finished = false;
  try {
    await client.query("begin isolation level repeatable read read only");
    await client.query(`set transaction snapshot ${escapeLiteral(snapshotName)}`);
    yield* client.query(copyTo(copySql(table, form))) as AsyncIterable<Uint8Array>;
    await client.query("commit");
    finished = true;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, "source", "table_unavailable");
  } finally {
    signal.removeEventListener("abort", abort);
    if (finished) await client.end();
    else destroyClient(client);
  }
}

/** A query rather than the table's name, because COPY refuses partitioned tables; ONLY leaves out inheritance children. */
function copySql(table: TableShape, form: TupleForm): string {
  const { schema, name, columns } = table.relation;
  const list = columns.map((column) => escapeIdentifier(column.name)).join(", ");
  const target = `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;
  const only = table.isPartitioned ? "" : "only ";
  const source =
    table.isPartitioned || columns.length === 0
      ? `(select ${list} from ${only}${target})`
      : `${target} (${list})`;
  return `copy ${source} to stdout (format ${form})`;
}
