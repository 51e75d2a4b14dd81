// A pool of sessions for work of one kind: a new connection for each of thousands of small tables would take longer
// than copying them. The user of a session watches it; nobody watches an idle one. So a session idles only for a
// moment, and holds nothing that another run could wait for.

import type { Client } from "pg";
import type { PostgresSide } from "./connection-failure.ts";
import { closeClient, destroyClient } from "./postgres-client.ts";
import { describePostgresError } from "./postgres-failure.ts";

/** When no work came for so long, the pool closes the session. */
const defaultIdleMs = 1_000;

export class SessionPool implements AsyncDisposable {
  /** The idle sessions, each with a function that stops its idle timer. */
  readonly #idle = new Map<Client, () => void>();
  /** Sessions that are being closed. */
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(
    private readonly open: (signal: AbortSignal) => Promise<Client>,
    private readonly idleMs = defaultIdleMs,
  ) {}

  /**
   * Returns a session for the caller alone, who gives it back or breaks it. While a session is being closed no other is
   * opened: the pool must not count twice towards a limit. The signal ends connecting.
   */
  async take(signal: AbortSignal): Promise<Client> {
    if (this.#idle.size === 0) await Promise.all(this.#closing);
    const [client] = this.#idle.keys();
    if (client === undefined) return await this.open(signal);
    this.#endIdle(client);
    return client;
  }

  /** The session must be as it was when it was taken: outside a transaction, without locks, no query running. */
  async giveBack(client: Client): Promise<void> {
    if (this.#closed) return await closeClient(client);
    const forget = () => this.#endIdle(client);
    const timer = setTimeout(() => this.#close(client), this.idleMs);
    client.once("end", forget);
    this.#idle.set(client, () => {
      clearTimeout(timer);
      client.off("end", forget);
    });
  }

  /** Closes the idle sessions. Resolves when the server has closed them. */
  async closeIdle(): Promise<void> {
    for (const client of [...this.#idle.keys()]) this.#close(client);
    await Promise.all(this.#closing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.closeIdle();
  }

  #close(client: Client): void {
    this.#endIdle(client);
    const closing = closeClient(client).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #endIdle(client: Client): void {
    this.#idle.get(client)?.();
    this.#idle.delete(client);
  }
}

/**
 * Runs `work` in a session of the pool, and gives the session back where it succeeds. The signal breaks the connection,
 * even while a query runs. Throws MillraceErrors of `side`, or errors as they are where that is null; or `signal.reason`.
 */
export async function withPooledSession<Result>(
  pool: Pick<SessionPool, "take" | "giveBack">,
  signal: AbortSignal,
  side: PostgresSide | null,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = await pool.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const result = await work(client);
    // The signal has broken the session meanwhile: nobody else may get it, and a result that needs it is of no use.
    signal.throwIfAborted();
    await pool.giveBack(client);
    return result;
  } catch (error) {
    destroyClient(client);
    if (signal.aborted) throw signal.reason;
    throw side === null ? error : describePostgresError(error, side);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
