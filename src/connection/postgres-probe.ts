// The first half of validating a Postgres server, the same for a source and a sink: host name, port, TLS, connection,
// login, version. The callers then check privileges and settings.

import { isIP, Socket } from "node:net";
import type { Client } from "pg";
import { bounded } from "../concurrency/until-aborted.ts";
import { bastionsOf } from "../connector/config/bastions.ts";
import type { PostgresConnection } from "../connector/config/connection.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { bastionTimeoutMs } from "./bastion-channel.ts";
import type { PostgresSide } from "./connection-failure.ts";
import { type Lookup, systemLookup } from "./egress.ts";
import { closeClient, connectPostgres, destroyClient, isEncrypted, processIdOf } from "./postgres-client.ts";
import { describePostgresError, notToPooler, sqlStateOf } from "./postgres-failure.ts";
import { TunnelFailure } from "./tunnel-failure.ts";
import { TunnelSocket } from "./tunnel-socket.ts";
import type { Finding, ValidationLog } from "./validation-log.ts";

/** Less than a whole validation may take, so that it can tell what it was that did not answer. */
const reachTimeoutMs = 4_000;

/**
 * Records the tests from DnsResolution to ServerInfo, then those of `inspect`. `inspect` gets null where no connection
 * could be made, so that it lists its tests as skipped. A query of `inspect` that fails ends the validation as failed.
 * Throws `signal.reason` only; a reason of `source_timeout` ends the validation as failed.
 */
export async function probePostgres(
  connection: PostgresConnection,
  side: PostgresSide,
  signal: AbortSignal,
  log: ValidationLog,
  inspect: (client: Client | null) => Promise<void>,
  lookup: Lookup = systemLookup,
): Promise<void> {
  const names = await resolveNames(connection, (host) => resolveName(host, lookup, side, signal));
  log.record({ Network: { subtype: "DnsResolution" } }, names);
  const way = log.failure === null ? await reach(connection, side, signal) : null;
  log.record({ Network: { subtype: "Reachability" } }, way?.finding ?? passed);
  const client = await logInBy(way, connection, side, signal, log);
  if (!client) {
    log.record({ ServerInfo: { version: "unknown" } }, passed);
    return await inspect(null);
  }
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await recordVersion(client, log);
    await inspect(client);
  } catch (error) {
    log.record({ Connection: {} }, failedBy(failureOf(error, signal, side)));
  } finally {
    signal.removeEventListener("abort", abort);
    await closeClient(client);
  }
}

const passed: Finding = { type: "passed" };

function failedBy(error: MillraceError): Finding {
  return { type: "failed", reason: error.message };
}

/** Throws `signal.reason` unless that is the end of the validation's time. */
function failureOf(error: unknown, signal: AbortSignal, side: PostgresSide): MillraceError {
  if (!signal.aborted) return describePostgresError(error, side);
  const { reason } = signal;
  if (reason instanceof MillraceError && reason.code === "source_timeout") return reason;
  throw reason;
}

function notAttempted(log: ValidationLog): null {
  for (const step of loginSteps) log.record(step, passed);
  return null;
}

async function logInBy(
  way: Way | null,
  connection: PostgresConnection,
  side: PostgresSide,
  signal: AbortSignal,
  log: ValidationLog,
): Promise<Client | null> {
  if (way === null || log.failure !== null) return notAttempted(log);
  if (way.refusal === null) return await logIn(connection, way.hostKey, side, signal, log);
  const skipped: Finding = {
    type: "skipped",
    reason: "The SSH server comes first, and the tunnel was refused.",
  };
  for (const step of loginSteps) log.record(step, "Authentication" in step ? way.refusal : skipped);
  return null;
}

const loginSteps = [{ TLS: {} }, { Connection: {} }, { Authentication: {} }] as const;

/**
 * Resolves the SSH servers' names where there is a tunnel: the database's name is resolved by the SSH server in use.
 */
async function resolveNames(
  { host, tunnel }: PostgresConnection,
  resolve: (host: string) => Promise<Finding>,
): Promise<Finding> {
  if (!tunnel?.ssh) return await resolve(host);
  const findings = await Promise.all(bastionsOf(tunnel.ssh).map((bastion) => resolve(bastion.host)));
  if (findings.some(({ type }) => type === "passed")) {
    return { type: "passed", message: "Of the SSH server; the database's name is resolved there." };
  }
  return { type: "failed", reason: "The SSH server's host name does not resolve." };
}

async function resolveName(
  host: string,
  lookup: Lookup,
  side: PostgresSide,
  signal: AbortSignal,
): Promise<Finding> {
  if (isIP(host) !== 0 || host.startsWith("/")) return { type: "passed", message: "No name to resolve." };
  const time = AbortSignal.timeout(reachTimeoutMs);
  try {
    const { length } = await bounded(AbortSignal.any([signal, time]), () => lookup(host));
    return { type: "passed", message: `${length} address${length === 1 ? "" : "es"}.` };
  } catch (error) {
    if (signal.aborted) return failedBy(failureOf(error, signal, side));
    const problem = time.aborted
      ? "The name server did not answer in time"
      : "The host name does not resolve";
    return { type: "failed", reason: `${problem}.` };
  }
}

/** What came of reaching the server. */
interface Way {
  readonly finding: Finding;
  /** An SSH server was reached, and did not let us in or is not the expected one; null: it did, or there is none. */
  readonly refusal: Finding | null;
  /** The fingerprint of the SSH server's host key; null: there is none. */
  readonly hostKey: string | null;
}

async function reach(connection: PostgresConnection, side: PostgresSide, signal: AbortSignal): Promise<Way> {
  const { host, port, tunnel } = connection;
  const socket = tunnel?.ssh ? new TunnelSocket(tunnel.ssh) : new Socket();
  const bastions = tunnel?.ssh ? bastionsOf(tunnel.ssh).length : 0;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(reachTimeoutMs + bastions * bastionTimeoutMs)]);
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
      limit.addEventListener("abort", () => reject(limit.reason), { once: true });
      if (host.startsWith("/")) socket.connect(`${host}/.s.PGSQL.${port}`);
      else socket.connect(port, host);
    });
    const hostKey = socket instanceof TunnelSocket ? socket.hostKey : null;
    return { finding: passed, refusal: null, hostKey };
  } catch (error) {
    const failed = failedBy(failureOf(error, signal, side));
    const isRefused = error instanceof TunnelFailure && error.kind === "refused";
    return isRefused
      ? { finding: passed, refusal: failed, hostKey: null }
      : { finding: failed, refusal: null, hostKey: null };
  } finally {
    socket.destroy();
  }
}

/** TLS, Connection and Authentication are one login; the error tells which of them failed. */
async function logIn(
  connection: PostgresConnection,
  hostKey: string | null,
  side: PostgresSide,
  signal: AbortSignal,
  log: ValidationLog,
): Promise<Client | null> {
  try {
    const client = await connectPostgres(connection, "validation", signal, side);
    const findings = [
      tlsFinding(connection, isEncrypted(client)),
      passed,
      hostKeyFinding(connection, hostKey),
    ];
    for (const [index, step] of loginSteps.entries()) log.record(step, findings[index] ?? passed);
    return client;
  } catch (error) {
    const failure = failureOf(error, signal, side);
    const broken = brokenStep(failure);
    for (const [index, step] of loginSteps.entries()) {
      log.record(
        step,
        index === broken ? failedBy(failure) : index === 0 ? tlsBefore(connection, failure) : passed,
      );
    }
    return null;
  }
}

/** Index into `loginSteps`. A refused login has an SQLSTATE; a failed TLS handshake comes before there can be one. */
function brokenStep(failure: MillraceError): number {
  if (failure.code === "source_authentication_failed" || failure.code === "sink_authentication_failed")
    return 2;
  return /TLS|certificate/.test(failure.message) && sqlStateOf(failure) === null ? 0 : 1;
}

const disabled: Finding = { type: "skipped", reason: "ssl_mode is Disable." };

/** The login failed. That there was a handshake is known where the server has answered, and was not asked without one. */
function tlsBefore({ ssl_mode }: PostgresConnection, failure: MillraceError): Finding {
  if (ssl_mode === "Disable") return disabled;
  if (ssl_mode !== "Prefer" && sqlStateOf(failure) !== null) return passed;
  return {
    type: "skipped",
    reason: "The connection failed, and whether there was a TLS handshake is not known.",
  };
}

function tlsFinding(connection: PostgresConnection, encrypted: boolean): Finding {
  if (connection.ssl_mode === "Disable") return disabled;
  if (encrypted) return passed;
  const way = connection.tunnel?.ssh
    ? "passwords and rows are encrypted up to the SSH server, and travel unencrypted from there to the database"
    : "passwords and rows travel unencrypted";
  return { type: "warned", message: `The server offers no TLS: ${way}.` };
}

/** `seen`: the fingerprint of the SSH server's host key. */
function hostKeyFinding({ tunnel }: PostgresConnection, seen: string | null): Finding {
  if (seen === null || !tunnel?.ssh || tunnel.ssh.host_keys) return passed;
  const others =
    tunnel.ssh.bastion_alternates.length > 0
      ? " Add the keys of the other SSH servers, which have their own."
      : "";
  return {
    type: "warned",
    message:
      "The SSH server's host key is not checked, so that another server could take its place. If this is its key, put it " +
      `into tunnel.ssh: "host_keys": ["${seen}"].${others}`,
  };
}

async function recordVersion(client: Client, log: ValidationLog): Promise<void> {
  const { rows } = await client.query<{ version: string; pid: number }>(
    "select current_setting('server_version') as version, pg_backend_pid() as pid",
  );
  const { version = "unknown", pid } = rows[0] ?? {};
  log.record({ ServerInfo: { version } }, pid === processIdOf(client) ? passed : behindPooler);
}

const behindPooler: Finding = {
  type: "warned",
  message: `A connection pooler is in between, and may share sessions with others. ${notToPooler}`,
};
