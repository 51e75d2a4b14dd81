// Connections to the sink's server, set up for applying changes that have been checked once already, at the source.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import {
  connectPostgres,
  destroyClient,
  liftTransactionTimeout,
  withPostgres,
} from "../../connection/postgres-client.ts";
import { describePostgresError, sqlStateOf } from "../../connection/postgres-failure.ts";
import { whileWatched } from "../../connection/session-watch.ts";
import { sqlState } from "../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { type ConnectorAtSink, sinkSessionName } from "./connector-lock.ts";

/**
 * Settings of a session that the sink has a better value for than the default. What somebody has chosen stays, but for
 * durability: a database or a role may have switched the waiting for the log off.
 */
const ownSettings = `select set_config(name, better, false) from pg_settings
  join (values
    ('synchronous_commit', 'on'),
    -- What a batch changes is sorted by key: with the default, in files.
    ('work_mem', '32MB'),
    -- Long values cost several times less than with pglz, in a server that was built with it.
    ('default_toast_compression', 'lz4')) own (name, better) using (name)
  where case name when 'synchronous_commit' then setting = 'off'
    else source = 'default' and (enumvals is null or better = any (enumvals)) end`;

/** A backend whose client is gone ends within this time, also in the middle of a statement, and gives up its locks. */
const noticeLostClient = "set client_connection_check_interval = '5s'";

const endSessionMs = 2_000;

/** Throws MillraceErrors, or `signal.reason`. */
export async function openApplySession(
  config: PostgresSinkConfig,
  connector: ConnectorAtSink,
  warn: (reason: string) => void,
): Promise<Client> {
  return await openSession(config, "apply", connector, warn);
}

/** A session beside the one that applies. Throws MillraceErrors, or `signal.reason`. */
export async function openCopySession(
  config: PostgresSinkConfig,
  connector: ConnectorAtSink,
): Promise<Client> {
  return await openSession(config, "copy", connector, () => {});
}

/**
 * A copy session whose connection was broken: its backend may still be in a statement, and sees that it is alone some seconds later.
 * What cannot be reached now is left to that.
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
  await client.query(ownSettings);
  await liftTransactionTimeout(client);
  await client.query(noticeLostClient).catch((error: unknown) => {
    // The server's platform cannot.
    if (sqlStateOf(error) !== sqlState.invalidParameterValue) throw error;
  });
  await becomeReplica(client, warn);
  return client;
}

/**
 * Switches triggers, rules and foreign keys off for this session: the source has obeyed them already.
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
