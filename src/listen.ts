// Listens on the service's address. If it cannot, it says why, and what to do: from the system's error, and from whether somebody answers there.

import { connect } from "node:net";
import type { App } from "./app.ts";
import { MillraceError } from "./errors/millrace-error.ts";

interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** For people. */
  readonly url: string;
}

/** A request may read a catalog, which takes up to a minute. */
const idleTimeoutSeconds = 90;

/**
 * Bun would refuse a large body itself, with no reason for people. json-body.ts reads no more of one than it takes, and Bun keeps
 * nothing of what nobody reads.
 */
const unboundedBody = Number.MAX_SAFE_INTEGER;

/** Throws `invalid_setting` if it cannot. */
export async function listen(app: App, { host, port }: Pick<ListenAddress, "host" | "port">) {
  try {
    // Bun sets SO_REUSEADDR: what is left of earlier connections (TIME_WAIT) does not hold the port.
    app.listen({
      hostname: host,
      port,
      idleTimeout: idleTimeoutSeconds,
      reusePort: false,
      maxRequestBodySize: unboundedBody,
    });
  } catch (error) {
    throw await cannotListen(error, { host, port, url: urlOf(host, port) });
  }
  if (!app.server) throw new MillraceError("internal", "The HTTP server did not start.");
  return app.server;
}

export function urlOf(host: string, port: number | undefined): string {
  return `http://${host.includes(":") ? `[${host.replace(/^\[|\]$/g, "")}]` : host}:${port}`;
}

async function cannotListen(error: unknown, address: ListenAddress): Promise<MillraceError> {
  const code = codeOf(error);
  const isAnswered = code === "EADDRINUSE" && (await answers(address));
  const reason = listenFailure(code, error, address, isAnswered);
  return new MillraceError("invalid_setting", `Cannot listen on ${address.url}: ${reason}`, { cause: error });
}

/** Pure. `isAnswered`: a connection to the address was accepted. */
export function listenFailure(
  code: string,
  error: unknown,
  { host, port }: Pick<ListenAddress, "host" | "port">,
  isAnswered: boolean,
): string {
  const other = "set another port (--port, MILLRACE_PORT)";
  switch (code) {
    case "EADDRINUSE":
      return isAnswered
        ? `another process listens on port ${port} (${code}). End it, or ${other}.`
        : `port ${port} of ${host} is taken, and nothing answers there (${code}): a process may hold it without listening on this address, or ` +
            `use it as its own end of a connection. See who with ss -tanp 'sport = :${port}', or ${other}.`;
    case "EADDRNOTAVAIL":
      return `this machine has no address ${host} (${code}). Set one that it has (--host, MILLRACE_HOST): 127.0.0.1, or 0.0.0.0 for all.`;
    case "EACCES":
    case "EPERM":
      return (
        `the system does not let this user listen on port ${port} (${code}): ports below 1024 mostly need a privilege. Grant it ` +
        `(CAP_NET_BIND_SERVICE), or ${other}.`
      );
    case "EINVAL":
    case "ENOTFOUND":
      return `${host} is no address, and no name of one (${code}). Set another one (--host, MILLRACE_HOST).`;
    default:
      return `${error instanceof Error ? error.message : String(error)}${code === "" ? "" : ` (${code})`}. See --host and --port.`;
  }
}

function codeOf(error: unknown): string {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** How long somebody who listens may take to accept a connection. */
const answerMs = 1_000;

async function answers({ host, port }: ListenAddress): Promise<boolean> {
  const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  const plain = host.replace(/^\[|\]$/g, "");
  const socket = connect({ host: everywhere[plain] ?? plain, port });
  const result = Promise.withResolvers<boolean>();
  socket.once("connect", () => result.resolve(true));
  socket.once("error", () => result.resolve(false));
  socket.setTimeout(answerMs, () => result.resolve(false));
  try {
    return await result.promise;
  } finally {
    socket.destroy();
  }
}
