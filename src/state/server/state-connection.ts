// Parses DATABASE_URL. `sslmode` and the certificate parameters have libpq's meaning, with three exceptions: without
// them there is no TLS, `allow` is refused, and no default root certificate is looked up.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS

import { connect, isIP } from "node:net";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import { parse, toClientConfig } from "pg-connection-string";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type StateConnection, StateSession } from "./state-session.ts";

const modes: ReadonlySet<unknown> = new Set([
  ...[undefined, "disable", "prefer"],
  ...["require", "verify-ca", "verify-full"],
]);
const defaultPort = 5432;
const probeMs = 10_000;

/**
 * How to reach the state database. Tries `prefer` once, here. Throws `invalid_setting`, or the driver's error about the
 * URL, about a file that it names, or about the attempt.
 */
export async function stateConnection(url: string): Promise<StateConnection> {
  const parsed = parse(url, { useLibpqCompat: true });
  if (!modes.has(parsed.sslmode)) throw unknownMode();
  const { host = "localhost", port = defaultPort, user, password, database, ssl } = toClientConfig(parsed);
  const secret = typeof password === "string" ? password : undefined;
  const plain: StateConnection = { host, port: Number(port), user, password: secret, database, ssl: false };
  if (!ssl || host.startsWith("/")) return plain;
  const secured = { ...plain, ssl: identified(ssl === true ? {} : ssl, host) };
  const isOffered = await offersTls(host, plain.port);
  if (parsed.sslmode === "prefer") return isOffered && (await takesTls(secured)) ? secured : plain;
  if (!isOffered) throw new Error("The server does not support SSL connections");
  return secured;
}

/** The driver does not check a certificate's name if the host is an address. */
function identified(ssl: ConnectionOptions, host: string): ConnectionOptions {
  const name = isIP(host) ? {} : { servername: host };
  return { checkServerIdentity: (_, certificate) => checkServerIdentity(host, certificate), ...name, ...ssl };
}

/** SSLRequest: https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL */
const sslRequest = Uint8Array.of(0, 0, 0, 8, 4, 210, 22, 47);

async function offersTls(host: string, port: number): Promise<boolean> {
  const answer = Promise.withResolvers<boolean>();
  const socket = connect({ host, port, timeout: probeMs }, () => socket.write(sslRequest));
  socket.once("data", (bytes) => answer.resolve(bytes[0] === "S".charCodeAt(0)));
  socket.once("timeout", () => answer.reject(new Error(`no answer from ${host}:${port}`)));
  socket.once("error", answer.reject);
  socket.once("close", () => answer.reject(new Error(`${host}:${port} closed the connection`)));
  try {
    return await answer.promise;
  } finally {
    socket.destroy();
  }
}

/** A server that offers TLS may still refuse it for this user in pg_hba.conf. */
async function takesTls(connection: StateConnection): Promise<boolean> {
  try {
    await using _session = await StateSession.open(connection, { name: "millrace state", answerMs: probeMs });
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "28000") return false;
    throw error;
  }
}

function unknownMode(): MillraceError {
  return new MillraceError(
    "invalid_setting",
    "The sslmode of DATABASE_URL must be disable, prefer, require, verify-ca or verify-full.",
  );
}
