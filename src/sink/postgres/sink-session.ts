// Opens sessions at the sink's server and sets them up for changes whose constraints the source has checked already.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import {
  connectPostgres,
  destroyClient,
  liftTransactionTimeout,
  noticeLostClient,
  withPostgres,
} from "../../connection/postgres-client.ts";
import { describePostgresError, sqlStateOf } from "../../connection/postgres-failure.ts";
import { whileWatched } from "../../connection/session-watch.ts";
import { sqlState } from "../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../connector/config/sink-config.ts";
import { type ConnectorAtSink, sinkSessionName } from "./bookkeeping/connector-lock.ts";

/** COMMIT must wait for the WAL: a database or a role may have switched that off. */
const waitForTheLog =
  "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'";

/** Batches are sorted by key, with the default in files. A value that somebody has chosen stays. */
const sortInMemory = "select set_config('work_mem', '32MB', false) where current_setting('work_mem') = '4MB'";

/**
 * Long values cost several times less than with pglz, where the server was built with it and nobody has chosen. The view of all
 * settings is larger than the least work_mem, and files may be forbidden.
 */
const compressWithLz4 = `begin; set local work_mem = '4MB';
select set_config(name, 'lz4', false) from pg_settings
where name = 'default_toast_compression' and source = 'default' and 'lz4' = any (enumvals); commit`;

const endSessionMs = 2_000;

/** Throws MillraceErrors, or `signal.reason`. */
export async function openApplySession(
  config: PostgresSinkConfig,
  connector: ConnectorAtSink,
  warn: (reason: string) => void,
): Promise<Client> {
  return await openSession(config, "apply", connector, warn);
}

/** A session for copies and transactions in progress. Throws MillraceErrors, or `signal.reason`. */
export async function openCopySession(
  config: PostgresSinkConfig,
  connector: ConnectorAtSink,
): Promise<Client> {
  return await openSession(config, "copy", connector, () => {});
}

/**
 * Terminates a copy session whose connection was broken: its backend would notice only some seconds later. If the server cannot be reached now,
 * the backend ends by itself.
 */
export async function endCopySession(
  { connection }: PostgresSinkConfig,
  connector: ConnectorAtSink,
  pid: number,
): Promise<void> {
  const sql =
    "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and application_name = $2 and usename = current_user";
  const signal = AbortSignal.any([connector.signal, AbortSignal.timeout(endSessionMs)]);
  await withPostgres(connection, "control", signal, "sink", (client) =>
    client.query(sql, [pid, sinkSessionName("copy", connector)]),
  ).catch(() => {});
}

async function openSession(
  { connection }: PostgresSinkConfig,
  purpose: "apply" | "copy",
  connector: ConnectorAtSink,
  warn: (reason: string) => void,
): Promise<Client> {
  const { signal } = connector;
  const client = await connectPostgres(connection, purpose, signal, "sink");
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await whileWatched({ connection, side: "sink", client, signal }, () =>
      setUp(client, sinkSessionName(purpose, connector), warn),
    );
  } catch (error) {
    destroyClient(client);
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, "sink");
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

async function setUp(client: Client, name: string, warn: (reason: string) => void): Promise<Client> {
  await client.query(`set application_name = ${escapeLiteral(name)}; set jit = off`);
  await client.query(`${waitForTheLog}; ${sortInMemory}`);
  await client.query(compressWithLz4);
  await liftTransactionTimeout(client);
  await noticeLostClient(client);
  await becomeReplica(client, warn);
  return client;
}

/**
 * Switches triggers, rules and foreign keys off for this session: the source has enforced them already.
 * https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE
 */
async function becomeReplica(client: Client, warn: (reason: string) => void): Promise<void> {
  try {
    await client.query("set session_replication_role = replica");
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.insufficientPrivilege) throw error;
    warn(
      "The sink's role may not set session_replication_role: triggers and foreign keys at the sink stay in force. " +
        `Run GRANT SET ON PARAMETER session_replication_role TO ${escapeIdentifier(client.user ?? "")}; (PostgreSQL 15 or later).`,
    );
  }
}
