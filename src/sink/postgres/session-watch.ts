// Notices that a session's other end is gone while a statement runs. A server that died without a word, or a network that
// drops packets, would keep the statement waiting until TCP gives up, a quarter of an hour later.

import type { Client } from "pg";
import {
  closeClient,
  connectPostgres,
  destroyClient,
  processIdOf,
} from "../../connection/postgres-client.ts";
import { sqlStateOf } from "../../connection/postgres-failure.ts";
import type { PostgresConnection } from "../../connector/connection.ts";

const lookEveryMs = 5_000;

/** Runs `action` on `client`; breaks the connection when another one finds its backend gone, or finds no server. */
export async function whileWatched<T>(
  connection: PostgresConnection,
  client: Client,
  signal: AbortSignal,
  action: () => Promise<T>,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  const look = async () => {
    const isAlive = await hasBackend(connection, processIdOf(client), signal);
    if (isOver) return;
    if (isAlive) arm();
    else destroyClient(client);
  };
  const arm = () => {
    timer = setTimeout(() => void look(), lookEveryMs);
  };
  arm();
  try {
    return await action();
  } finally {
    isOver = true;
    clearTimeout(timer!);
  }
}

/** Whether the server says that the backend is there. One that cannot be reached counts as gone, one that refuses does not. */
async function hasBackend(
  connection: PostgresConnection,
  pid: number,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const observer = await connectPostgres(connection, "control", signal, "sink");
    try {
      const { rowCount } = await observer.query("select from pg_stat_activity where pid = $1", [pid]);
      return rowCount === 1;
    } finally {
      await closeClient(observer);
    }
  } catch (error) {
    return sqlStateOf(error) !== null;
  }
}
