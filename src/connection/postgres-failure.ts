// Translates a failure of a Postgres connection or statement into one of our error codes and a sentence. The sentence
// has no secret, no address and no row value. Source and sink share this file; it knows neither.
// https://www.postgresql.org/docs/current/errcodes-appendix.html

import type { ErrorCode } from "../errors/error-codes.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { isTlsProblem, type Meaning, meaningOfConnection, type PostgresSide } from "./connection-failure.ts";
import { isSqlState, sqlState } from "./sql-state.ts";
import { TunnelFailure, type TunnelFailureKind } from "./tunnel-failure.ts";

/** The parts we read of an error from `pg`, node:net or node:tls. */
interface ForeignError {
  readonly code: string;
  readonly message: string;
  readonly hint: string | undefined;
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly column: string | undefined;
  readonly constraint: string | undefined;
  /** The server's function that raised it. */
  readonly routine: string | undefined;
  /** The context, innermost first. */
  readonly where: string | undefined;
}

/**
 * `error` as a MillraceError of that side, with the original as its cause. `fallback` is the code for an SQLSTATE that
 * is not listed here.
 */
export function describePostgresError(
  error: unknown,
  side: PostgresSide,
  fallback: ErrorCode = "internal",
): MillraceError {
  if (error instanceof MillraceError) return error;
  if (error instanceof TunnelFailure) {
    return new MillraceError(tunnelCodes[error.kind](side), error.message, { cause: error });
  }
  const foreign = readError(error);
  const meaning = isSqlState(foreign.code)
    ? meaningOfSqlState(foreign, side, fallback)
    : meaningOfConnection(foreign, side);
  return new MillraceError(meaning.code, meaning.text, { cause: error });
}

const tunnelCodes: Readonly<Record<TunnelFailureKind, (side: PostgresSide) => ErrorCode>> = {
  refused: (side) => `${side}_authentication_failed`,
  unreachable: (side) => `${side}_unreachable`,
  lost: (side) => `${side}_connection_lost`,
};

/** SQLSTATE of an error that the server sent, or null. */
export function sqlStateOf(error: unknown): string | null {
  const inner = error instanceof MillraceError && error.cause !== undefined ? error.cause : error;
  const { code } = readError(inner);
  return isSqlState(code) ? code : null;
}

/**
 * Whether TLS itself failed: the server has none, the handshake broke, or pg_hba.conf accepts only a plain connection.
 * Only then does `Prefer` try again without TLS, so that a wrong password is not sent twice.
 */
export function isTlsRefusal(error: unknown): boolean {
  if (error instanceof TunnelFailure) return false;
  const foreign = readError(error);
  if (foreign.code === sqlState.invalidAuthorizationSpecification) return isHostRefusal(foreign);
  // A server that has sent an SQLSTATE speaks of something else. Its message may name a role "ssl_app".
  return !isSqlState(foreign.code) && isTlsProblem(foreign.code, foreign.message);
}

/** Whether pg_hba.conf rejects a connection without TLS. It may accept one with TLS. */
export function isPlainRefusal(error: unknown): boolean {
  return isHostRefusal(readError(error));
}

/** pg_hba.conf rejects before the server asks for a password. */
function isHostRefusal({ code, message }: ForeignError): boolean {
  const isRefused = code === sqlState.invalidAuthorizationSpecification;
  return isRefused && /no pg_hba\.conf entry|pg_hba\.conf rejects/.test(message);
}

/** By SQLSTATE, or by its class of two characters. The longer match counts. */
const sqlStates: Readonly<Record<string, (side: PostgresSide) => Meaning>> = {
  "28": (side) => ({
    code: `${side}_authentication_failed`,
    text: "The server refused the user name, the password, or the address it came from (pg_hba.conf).",
  }),
  "3D000": (side) => ({ code: `${side}_unreachable`, text: "The database does not exist on that server." }),
  "42501": (side) => ({ code: `${side}_permission_denied`, text: "The role lacks a privilege" }),
  "53300": (side) => ({ code: `${side}_connection_lost`, text: "The server has no connection free" }),
  "57P01": (side) => ({ code: `${side}_connection_lost`, text: "The server closed the connection." }),
  "57P02": (side) => ({ code: `${side}_connection_lost`, text: "The server crashed and is recovering." }),
  "57P03": (side) => ({ code: `${side}_connection_lost`, text: "The server is starting or shutting down." }),
  "57P05": (side) => ({ code: `${side}_connection_lost`, text: "The server closed an idle connection." }),
  "08": (side) => ({ code: `${side}_connection_lost`, text: "The connection to the server was lost." }),
};

const sourceStates: Readonly<Record<string, ErrorCode>> = {
  "42P01": "table_unavailable",
  "55006": "slot_active",
  "53400": "slots_exhausted",
  "57014": "source_timeout",
  "55P03": "source_timeout",
  "40": "source_connection_lost",
  "53": "source_connection_lost",
  "08P01": "protocol_violation",
};

const sinkStates: Readonly<Record<string, ErrorCode>> = {
  "08P01": "sink_connection_lost",
  "42": "sink_schema_mismatch",
  "3F": "sink_schema_mismatch",
  "22": "sink_rejected_rows",
  "23": "sink_rejected_rows",
  "40": "sink_rejected_rows",
  "44": "sink_rejected_rows",
  "53": "sink_rejected_rows",
  "54": "sink_rejected_rows",
  "55": "sink_rejected_rows",
  "57014": "sink_rejected_rows",
  P0: "sink_rejected_rows",
};

function lookUp<Value>(table: Readonly<Record<string, Value>>, state: string): Value | undefined {
  return table[state] ?? table[state.slice(0, 2)];
}

/**
 * An exported snapshot lives as long as the connection that exported it. An import after that fails with one of these,
 * by version.
 */
function isLostSnapshot({ code, message }: ForeignError): boolean {
  const texts =
    /^snapshot ".*" does not exist|^invalid snapshot identifier|could not import the requested snapshot/;
  return ["42704", "22023", "55000"].includes(code) && texts.test(message);
}

/** Every session starts with that setting. It is new in 14, as the binary form of logical decoding is. */
const tooOld = "Postgres 14 or newer is needed: this server does not know idle_session_timeout.";

export const notToPooler = "Connect to the server itself, not to a pooler.";

const noWalsender =
  "All WAL senders of the source are taken. Raise max_wal_senders: ALTER SYSTEM SET max_wal_senders = …; and restart the server.";

const readOnlySink =
  "The sink takes no writes: it is a standby (connect to the primary), or its transactions are read-only by default: " +
  "ALTER ROLE … RESET default_transaction_read_only; or the same of the database or the server (SQLSTATE 25006).";

const lockTableFull =
  "The server has no room for more locks. Raise max_locks_per_transaction: " +
  "ALTER SYSTEM SET max_locks_per_transaction = …; and restart the server (SQLSTATE 53200).";

/** The server's message names the privilege that is missing, or whose limit was hit: role, database or server. */
const quotedStates: ReadonlySet<string> = new Set(["42501", "53300"]);

function meaningOfSqlState(error: ForeignError, side: PostgresSide, fallback: ErrorCode): Meaning {
  if (isLostSnapshot(error)) {
    return { code: `${side}_connection_lost`, text: "The connection that held the snapshot was lost." };
  }
  // PgBouncer's own failures bear this code, and no place in Postgres' source code.
  if (error.code === sqlState.protocolViolation && error.routine === undefined) {
    const text = `A connection pooler answers: ${error.message} (SQLSTATE ${error.code}). ${notToPooler}`;
    return { code: `${side}_connection_lost`, text };
  }
  if (error.code === sqlState.undefinedObject && error.message.includes("idle_session_timeout")) {
    return { code: `${side}_unreachable`, text: tooOld };
  }
  if (side === "sink" && error.code === sqlState.readOnlyTransaction) {
    return { code: "sink_permission_denied", text: readOnlySink };
  }
  const bySide = side === "source" ? sourceStates : sinkStates;
  const common = sqlStates[error.code] ?? (bySide[error.code] ? undefined : lookUp(sqlStates, error.code));
  if (!common) return { code: lookUp(bySide, error.code) ?? fallback, text: serverText(error) };
  const meaning = common(side);
  // The server's message when all WAL senders are taken; it has no SQLSTATE of its own.
  if (side === "source" && error.code === "53300" && error.message.includes("max_wal_senders")) {
    return { code: "walsenders_exhausted", text: noWalsender };
  }
  if (!quotedStates.has(error.code)) return meaning;
  return { code: meaning.code, text: `${meaning.text}: ${error.message} (SQLSTATE ${error.code}).` };
}

/** Says what is wrong with a value that the server refused, because the server's own message may quote the value. */
const refusals: Readonly<Record<string, string>> = {
  "22001": "that is too long for its column",
  "22003": "that is out of its type's range",
  "22007": "that is no date or time",
  "22008": "that is out of its type's range",
  "22021": "that the database's encoding does not have",
  "22P02": "that its type does not read",
  "22P03": "that its type does not read",
  "22P05": "that the database's encoding does not have",
  "23502": "that is null",
  "23503": "that breaks a foreign key",
  "23505": "that is there already",
  "23514": "that breaks a check",
  "23P01": "that excludes another",
  "44": "that a view's check option excludes",
  P0: "in a trigger or a function",
};

/** By the function in the server that raised the error, where other errors share its SQLSTATE. */
const refusalsBy: Readonly<Record<string, string>> = {
  ExecFindPartition: "that no partition takes",
};

/**
 * The server's message, unless it may quote a value: then the names that the error carries. Classes 22 and 23 are data
 * exceptions and constraints, 44 is check options, and P0 and RAISE are whatever a trigger says.
 */
function serverText(error: ForeignError): string {
  // Its message is "out of shared memory"; only the hint names the setting, in any language.
  if (error.hint?.includes("max_locks_per_transaction")) return lockTableFull;
  const state = `SQLSTATE ${error.code}`;
  const isRaised = error.routine === "exec_stmt_raise";
  if (!isRaised && !/^(22|23|44|P0)/.test(error.code)) return `The server says: ${error.message} (${state}).`;
  // The innermost function; the context says it in English, or is not understood.
  const raiser = isRaised && /^PL\/pgSQL function (.+\)) line \d+ at RAISE/.exec(error.where ?? "")?.[1];
  const location = [
    error.constraint ? `constraint ${error.constraint}` : "",
    error.table ? `table ${error.schema ? `${error.schema}.` : ""}${error.table}` : "",
    error.column ? `column ${error.column}` : "",
    raiser ? `function ${raiser}` : "",
  ].filter((part) => part !== "");
  const why = isRaised ? refusals.P0 : (refusalsBy[error.routine ?? ""] ?? lookUp(refusals, error.code));
  return `The server refused a value${why ? ` ${why}` : ""}${location.length > 0 ? `: ${location.join(", ")}` : ""} (${state}).`;
}

function readError(error: unknown): ForeignError {
  const record: Record<string, unknown> =
    typeof error === "object" && error !== null ? (error as Record<string, unknown>) : {};
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  return {
    code: text(record.code) ?? "",
    message: error instanceof Error ? error.message : String(error),
    hint: text(record.hint),
    schema: text(record.schema),
    table: text(record.table),
    column: text(record.column),
    constraint: text(record.constraint),
    routine: text(record.routine),
    where: text(record.where),
  };
}
