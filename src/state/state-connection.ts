// How the service connects to the Postgres of DATABASE_URL. `sslmode` and the certificates' parameters have libpq's meaning, but for
// their absence: then there is no TLS. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS

import { Client, type ClientConfig } from "pg";
import { parse, toClientConfig } from "pg-connection-string";

const connectMs = 10_000;
const keepAliveAfterMs = 30_000;
const goodbyeMs = 1_000;

/**
 * Options for clients of the state database. `Prefer` is tried here, once. Throws what the driver says of the URL, of a file that it
 * names, or of the attempt.
 */
export async function stateConnection(url: string): Promise<ClientConfig> {
  const parsed = parse(url, { useLibpqCompat: true });
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
    // The driver has no code for it.
    if (error instanceof Error && error.message === "The server does not support SSL connections")
      return false;
    throw error;
  }
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
