// Connects to a Postgres server, as a source or a sink: TLS modes, timeouts, and session settings that give values the
// same text everywhere. What a failure means is in postgres-failure.ts, how a tunnel gets there in tunnel-socket.ts.

import { Client, type ClientConfig } from "pg";
import { bastionsOf } from "../connector/config/bastions.ts";
import type { PostgresConnection } from "../connector/config/connection.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { bastionTimeoutMs } from "./bastion-channel.ts";
import type { PostgresSide } from "./connection-failure.ts";
import {
  describePostgresError,
  isPlainRefusal,
  isTlsRefusal,
  notToPooler,
  sqlStateOf,
} from "./postgres-failure.ts";
import { sqlState } from "./sql-state.ts";
import { TunnelSocket } from "./tunnel-socket.ts";

/** What a connection is for. It is the end of `application_name` and decides the statement timeout. */
export type ConnectionPurpose =
  | "validation"
  | "catalog"
  | "control"
  | "snapshot"
  | "replication"
  | "apply"
  | "copy";

/**
 * A startup parameter that makes the server start a walsender for this database. pg passes it on but does not type it.
 */
const walsender: object = { replication: "database" };
/**
 * pg refuses more than 100,000 iterations of SCRAM, which psql accepts. So many take a third of a second, in another
 * thread. pg does not type it.
 */
const scramBound: object = { scramMaxIterations: 2_000_000 };
/** From the first packet to the first ReadyForQuery. SSH servers on the way add to it. */
const connectTimeoutMs = 10_000;
/** For statements that a person waits for. Long work has no limit and ends by its signal. */
const interactiveStatementTimeoutMs = 30_000;
const keepAliveAfterMs = 30_000;
const goodbyeMs = 1_000;
/** A copy's session rests in its pool for a moment only. One that is idle longer has been lost by the network. */
const idleCopySessionMs = 60_000;

/**
 * Fixed for each session, so that a value has the same text on every server, and no default of the role or the database
 * ends a long copy. The search path is empty, as in Postgres' own apply worker: types print with their schema, and no
 * function of another schema can shadow the one that was meant.
 */
const sessionSettings: Readonly<Record<string, string>> = {
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  extra_float_digits: "3",
  TimeZone: "UTC",
  bytea_output: "hex",
  lc_monetary: "C",
  // How values are read back: xml that is no document, and NULL inside an array.
  xmloption: "content",
  array_nulls: "on",
  quote_all_identifiers: "off",
  // How an expression's strings are printed by one server, and read by the other.
  standard_conforming_strings: "on",
  search_path: "",
  idle_in_transaction_session_timeout: "0",
  // Under a stricter level, statements of concurrent sessions fail with serialization errors.
  default_transaction_isolation: "read\\ committed",
  // Raises an error where a policy would hide rows from a copy.
  row_security: "off",
};

/**
 * Options for a `pg` client. `ssl_mode` has libpq's meaning; certificates are PEM text. `Prefer` is a rule about
 * attempts, not an option: `connectPostgres` makes the attempts, `isEncrypted` tells the outcome, and `encrypted`
 * applies it to a client that is made elsewhere, as the replication stream's is.
 * https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION
 */
export function clientOptions(
  connection: PostgresConnection,
  purpose: ConnectionPurpose,
  encrypted = connection.ssl_mode !== "Disable",
): ClientConfig {
  const ssh = connection.tunnel?.ssh;
  return {
    host: connection.host,
    port: connection.port,
    user: connection.user,
    // A function, because pg replaces an empty string by PGPASSWORD or ~/.pgpass.
    password: () => connection.password ?? "",
    ...scramBound,
    database: connection.database,
    ssl: encrypted ? tlsOptions(connection) : false,
    application_name: `millrace ${purpose}`,
    client_encoding: "UTF8",
    options: startupOptions(connection, purpose),
    ...(purpose === "replication" ? walsender : {}),
    connectionTimeoutMillis: connectTimeoutMs + (ssh ? bastionsOf(ssh).length * bastionTimeoutMs : 0),
    ...(ssh ? { stream: () => new TunnelSocket(ssh) } : {}),
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
  };
}

/**
 * Returns a connected client, which the caller ends. `name` is its application_name. A connection that fails while no query runs reports nothing; the
 * next query fails.
 *
 * Throws MillraceErrors of `side` (`source_unreachable`, `sink_authentication_failed`, …), or `signal.reason`.
 */
export async function connectPostgres(
  connection: PostgresConnection,
  purpose: ConnectionPurpose,
  signal: AbortSignal,
  side: PostgresSide,
  name = `millrace ${purpose}`,
): Promise<Client> {
  const connect = (encrypted?: boolean) =>
    connectOnce({ ...clientOptions(connection, purpose, encrypted), application_name: name }, side, signal);
  try {
    return await (connection.ssl_mode === "Prefer" ? preferTls(connection, connect) : connect());
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, side);
  }
}

/** For servers that refused TLS: until when to connect without trying it. */
const refusedTls = new WeakMap<PostgresConnection, number>();
/** A run opens several connections at once: without this, each would take two attempts. */
const rememberRefusalMs = 10_000;

/** Connects with TLS, or without where the server refuses it. */
async function preferTls(
  connection: PostgresConnection,
  connect: (encrypted: boolean) => Promise<Client>,
): Promise<Client> {
  if (performance.now() < (refusedTls.get(connection) ?? 0)) {
    try {
      return await connect(false);
    } catch (error) {
      refusedTls.delete(connection);
      // By now the server requires TLS. Only a refusal by pg_hba.conf is tried again: a wrong password is not sent
      // twice.
      if (!isPlainRefusal(error)) throw error;
    }
  }
  try {
    return await connect(true);
  } catch (error) {
    if (!isTlsRefusal(error)) throw error;
  }
  const client = await connect(false);
  refusedTls.set(connection, performance.now() + rememberRefusalMs);
  return client;
}

/**
 * Connects, runs `work`, and always closes. The signal breaks the connection, even while a query runs. Throws
 * MillraceErrors of `side`, or `signal.reason`.
 */
export async function withPostgres<Result>(
  connection: PostgresConnection,
  purpose: ConnectionPurpose,
  signal: AbortSignal,
  side: PostgresSide,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = await connectPostgres(connection, purpose, signal, side);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await work(client);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, side);
  } finally {
    signal.removeEventListener("abort", abort);
    await closeClient(client);
  }
}

/**
 * For transactions without a time limit. It is no startup parameter, because servers before version 17 do not know the
 * setting and would refuse the connection.
 */
export async function liftTransactionTimeout(client: Client): Promise<void> {
  await client.query(
    "select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) <> '0'",
  );
}

/**
 * A backend whose client is gone ends within this time, even during a statement or while it waits for a lock. Else it would keep its locks, and its
 * snapshot, until it has something to send. It is no startup parameter, because not every platform has it.
 */
export async function noticeLostClient(client: Client): Promise<void> {
  await client.query("set client_connection_check_interval = '5s'").catch((error: unknown) => {
    if (sqlStateOf(error) !== sqlState.invalidParameterValue) throw error;
  });
}

/** Sends Terminate, and breaks the connection where the server does not react soon. */
export async function closeClient(client: Client): Promise<void> {
  const timer = setTimeout(() => destroyClient(client), goodbyeMs);
  try {
    await client.end();
  } catch {
    // The connection was broken already: nothing is left to close.
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the connection uses TLS. */
export function isEncrypted(client: Client): boolean {
  return socketOf(client).encrypted === true;
}

/** Breaks the connection at once. A running query fails. */
export function destroyClient(client: Client): void {
  socketOf(client).destroy();
}

// library edge: pg has the backend's process id and does not type it.
export function processIdOf(client: Client): number {
  return (client as unknown as { processID: number }).processID;
}

// library edge: pg knows whether the server waits for a query, and does not type it.
export function isIdle(client: Client): boolean {
  return (client as unknown as { readyForQuery: boolean }).readyForQuery;
}

async function connectOnce(options: ClientConfig, side: PostgresSide, signal: AbortSignal): Promise<Client> {
  signal.throwIfAborted();
  const client = new Client(options);
  client.on("error", () => {});
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await client.connect();
    await requireSettings(client, side);
    return client;
  } catch (error) {
    destroyClient(client);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** A pooler may accept the login and drop the startup options. An empty path with row_security off is nobody's default. */
async function requireSettings(client: Client, side: PostgresSide): Promise<void> {
  const sql = "select concat(current_setting('search_path'), current_setting('row_security')) as settings";
  // The limit of `connect` ends with the login.
  const timer = setTimeout(destroyClient, connectTimeoutMs, client);
  const { rows } = await client.query<{ settings: string }>(sql).finally(() => clearTimeout(timer));
  if (rows[0]?.settings === "off") return;
  const text = "A connection pooler drops the settings that a session starts with.";
  throw new MillraceError(`${side}_unreachable`, `${text} ${notToPooler}`);
}

/** Settings in the startup packet apply from the first byte, also on a walsender. */
function startupOptions(connection: PostgresConnection, purpose: ConnectionPurpose): string {
  const interactive = purpose === "validation" || purpose === "catalog";
  const copies = purpose === "snapshot" || purpose === "copy";
  // The creation of a slot waits for transactions, by locks. How long is bounded there.
  const lockSeconds = purpose === "replication" ? 0 : (connection.operation_lock_timeout_seconds ?? 0);
  const settings = {
    ...sessionSettings,
    statement_timeout: String(interactive ? interactiveStatementTimeoutMs : 0),
    idle_session_timeout: String(copies ? idleCopySessionMs : 0),
    lock_timeout: String(lockSeconds * 1000),
  };
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(" ");
}

function tlsOptions(connection: PostgresConnection): Exclude<ClientConfig["ssl"], boolean | undefined> {
  const root = connection.ssl_root_cert || undefined;
  return {
    ...(root === undefined ? {} : { ca: root }),
    ...(connection.ssl_cert ? { cert: connection.ssl_cert } : {}),
    ...(connection.ssl_key ? { key: connection.ssl_key } : {}),
    ...verification(connection.ssl_mode, root !== undefined),
  };
}

function verification(mode: PostgresConnection["ssl_mode"], hasRoot: boolean) {
  const withoutName = { rejectUnauthorized: true, checkServerIdentity: () => undefined };
  switch (mode) {
    case "VerifyFull":
      return { rejectUnauthorized: true };
    case "VerifyCa":
      return withoutName;
    case "Require":
      // As libpq does: a root certificate that was given is used, even where ssl_mode asks for no verification.
      return hasRoot ? withoutName : { rejectUnauthorized: false };
    case "Disable":
    case "Prefer":
      return { rejectUnauthorized: false };
    default:
      return mode satisfies never;
  }
}

interface ClientSocket {
  readonly encrypted?: boolean;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  destroy(): void;
}

// library edge: pg does not type the connection below a client.
export function socketOf(client: Client): ClientSocket {
  return (client as unknown as { connection: { stream: ClientSocket } }).connection.stream;
}
