// How millrace connects to a Postgres server, whether that is a source or a sink: TLS modes, timeouts and the
// session settings that make text forms the same everywhere. What a failure means is in postgres-failure.ts, how a
// tunnel gets there in tunnel-socket.ts.

import { Client, type ClientConfig } from "pg";
import { bastionsOf } from "../connector/config/bastions.ts";
import type { PostgresConnection } from "../connector/config/connection.ts";
import { bastionTimeoutMs } from "./bastion-channel.ts";
import {
  describePostgresError,
  isPlainRefusal,
  isTlsRefusal,
  type PostgresSide,
} from "./postgres-failure.ts";
import { TunnelSocket } from "./tunnel-socket.ts";

/** What a connection is for. It is the end of `application_name`, and decides the statement timeout. */
export type ConnectionPurpose =
  | "validation"
  | "catalog"
  | "control"
  | "snapshot"
  | "replication"
  | "apply"
  | "copy";

/** Makes the server start a walsender for this database: a startup parameter that pg passes on and does not type. */
const walsender: object = { replication: "database" };
/** From the first packet to the first ReadyForQuery, without the way through SSH servers. */
const connectTimeoutMs = 10_000;
/** For what a person waits for; long work has no limit of its own and ends by its signal. */
const interactiveStatementTimeoutMs = 30_000;
const keepAliveAfterMs = 30_000;
const goodbyeMs = 1_000;
/** Sessions for copies rest for a moment only: one that its server sees idle for so long was forgotten by the network. */
const idleCopySessionMs = 60_000;

/**
 * Fixed for each session, so that a value's text is the same on every server and in every connection, and no
 * default of the role or the database ends a long copy. The search path is empty, as an apply worker of Postgres
 * has it: types print with their schema, and no function of a stranger is found before the one that was meant.
 */
const sessionSettings: Readonly<Record<string, string>> = {
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  extra_float_digits: "3",
  TimeZone: "UTC",
  bytea_output: "hex",
  lc_monetary: "C",
  // What a value is read as: xml that is no document, and NULL in an array.
  xmloption: "content",
  array_nulls: "on",
  quote_all_identifiers: "off",
  search_path: "",
  idle_in_transaction_session_timeout: "0",
  // A stricter one has statements of several sessions fail that are right side by side.
  default_transaction_isolation: "read\\ committed",
  // A policy that would hide rows from a copy is an error.
  row_security: "off",
};

/**
 * Options for a `pg` client. `ssl_mode` has libpq's meaning, certificates are PEM text; `encrypted` decides for
 * `Prefer`, which is a rule about trying and not an option: `connectPostgres` tries, and `isEncrypted` tells what
 * came of it, so that a client made elsewhere (the replication stream's) is made the same way.
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
    // A function, because pg takes PGPASSWORD or ~/.pgpass in place of an empty string.
    password: () => connection.password ?? "",
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
 * A connected client. The caller ends it. A failure of the connection while no query runs is swallowed here: it
 * is seen by the next query.
 *
 * Throws MillraceErrors of `side` (`source_unreachable`, `sink_authentication_failed`, …), or `signal.reason`.
 */
export async function connectPostgres(
  connection: PostgresConnection,
  purpose: ConnectionPurpose,
  signal: AbortSignal,
  side: PostgresSide,
): Promise<Client> {
  const connect = (encrypted?: boolean) => connectOnce(clientOptions(connection, purpose, encrypted), signal);
  try {
    return await (connection.ssl_mode === "Prefer" ? preferTls(connection, connect) : connect());
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, side);
  }
}

/** Until when connections that came about without TLS only are not tried with it. */
const refusedTls = new WeakMap<PostgresConnection, number>();
/** A run opens its connections side by side: each would be two. */
const refusalHoldsMs = 10_000;

/** With TLS, or without where the server refuses that. */
async function preferTls(
  connection: PostgresConnection,
  connect: (encrypted: boolean) => Promise<Client>,
): Promise<Client> {
  if (performance.now() < (refusedTls.get(connection) ?? 0)) {
    try {
      return await connect(false);
    } catch (error) {
      refusedTls.delete(connection);
      // The server wants TLS by now. A wrong password is not sent twice.
      if (!isPlainRefusal(error)) throw error;
    }
  }
  try {
    return await connect(true);
  } catch (error) {
    if (!isTlsRefusal(error)) throw error;
  }
  const client = await connect(false);
  refusedTls.set(connection, performance.now() + refusalHoldsMs);
  return client;
}

/**
 * Connects, runs `work`, and closes, whatever happens. The signal breaks the connection, also under a running
 * query. Throws MillraceErrors of `side`, or `signal.reason`.
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
 * Before transactions that take as long as they take. Not among the settings of the startup packet: servers before version 17 refuse
 * what they do not know.
 */
export async function liftTransactionTimeout(client: Client): Promise<void> {
  await client.query(
    "select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) <> '0'",
  );
}

/** Says goodbye to the server, and does not wait long for a server that is gone. */
export async function closeClient(client: Client): Promise<void> {
  const timer = setTimeout(() => destroyClient(client), goodbyeMs);
  try {
    await client.end();
  } catch {
    // The connection was broken already: there is nothing left to close.
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the connection is under TLS. */
export function isEncrypted(client: Client): boolean {
  return socketOf(client).encrypted === true;
}

/** Breaks the connection at once, whatever it is doing. A running query fails. */
export function destroyClient(client: Client): void {
  socketOf(client).destroy();
}

// library edge: pg keeps the backend's process id and does not type it.
export function processIdOf(client: Client): number {
  return (client as unknown as { processID: number }).processID;
}

// library edge: pg knows whether the server waits for a query, and does not type it.
export function isIdle(client: Client): boolean {
  return (client as unknown as { readyForQuery: boolean }).readyForQuery;
}

async function connectOnce(options: ClientConfig, signal: AbortSignal): Promise<Client> {
  signal.throwIfAborted();
  const client = new Client(options);
  client.on("error", () => {});
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await client.connect();
    return client;
  } catch (error) {
    destroyClient(client);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Settings in the startup packet, so that they hold from the first byte, on a walsender too. */
function startupOptions(connection: PostgresConnection, purpose: ConnectionPurpose): string {
  const interactive = purpose === "validation" || purpose === "catalog";
  const copies = purpose === "snapshot" || purpose === "copy";
  const settings = {
    ...sessionSettings,
    statement_timeout: String(interactive ? interactiveStatementTimeoutMs : 0),
    idle_session_timeout: String(copies ? idleCopySessionMs : 0),
    lock_timeout: String((connection.operation_lock_timeout_seconds ?? 0) * 1000),
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
      // As libpq: a root certificate that was given is used, also when nobody asked for verification.
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
