// How the service connects to the Postgres of DATABASE_URL. `sslmode` and the certificates' parameters have libpq's meaning, but that
// without them there is no TLS, that `allow` is refused, and that no root certificate is looked for where none is named. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS

import { Client, type ClientConfig } from "pg";
import { parse, toClientConfig } from "pg-connection-string";
import { MillraceError } from "../errors/millrace-error.ts";

const modes: ReadonlySet<unknown> = new Set([
  ...[undefined, "disable", "prefer"],
  ...["require", "verify-ca", "verify-full"],
]);
const connectMs = 10_000;
const keepAliveAfterMs = 30_000;
const goodbyeMs = 1_000;

/**
 * Options for clients of the state database. `prefer` is tried here, once. Throws `invalid_setting`, or what the driver says of the URL,
 * of a file that it names, or of the attempt.
 */
export async function stateConnection(url: string): Promise<ClientConfig> {
  const parsed = parse(url, { useLibpqCompat: true });
  if (!modes.has(parsed.sslmode)) throw unknownMode();
  const config: ClientConfig = {
    ...toClientConfig(parsed),
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
  };
  if (parsed.sslmode !== "prefer" || (await takesTls(config))) return config;
  return { ...config, ssl: false };
}

async function takesTls(config: ClientConfig): Promise<boolean> {
  try {
    await leaveState(await connectToState(config));
    return true;
  } catch (error) {
    if (isTlsRefused(error)) return false;
    throw error;
  }
}

/** By the server, for which the driver has no code; or, in the session, by its pg_hba.conf. */
function isTlsRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isRefused = (error as { code?: unknown }).code === "28000";
  return isRefused || error.message === "The server does not support SSL connections";
}

function unknownMode(): MillraceError {
  return new MillraceError(
    "invalid_setting",
    "The sslmode of DATABASE_URL must be disable, prefer, require, verify-ca or verify-full.",
  );
}

/** A failure of the connection while no query runs is seen by the next query. */
export async function connectToState(config: ClientConfig): Promise<Client> {
  const client = new Client(config);
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    await leaveState(client);
    throw error;
  }
}

/** A query that is under way fails. It does not wait long for a server that is gone. */
export async function leaveState(client: Client): Promise<void> {
  const ended = client.end().catch(() => {});
  await Promise.race([ended, Bun.sleep(goodbyeMs)]);
}
