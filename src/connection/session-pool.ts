// Sessions that are used one after the other for work of the same kind: to connect anew for each of thousands of small tables
// takes longer than to copy them. Who uses a session watches it; nobody watches one that rests, so it rests only for a moment,
// and must hold nothing that another run would wait for.

import type { Client } from "pg";
import { closeClient, destroyClient } from "./postgres-client.ts";
import { describePostgresError, type PostgresSide } from "./postgres-failure.ts";

/** A session that rests for longer has no more work to come. */
const defaultRestMs = 1_000;

export class SessionPool implements AsyncDisposable {
  /** Those that rest, each with what ends its rest. */
  readonly #resting = new Map<Client, () => void>();
  /** Sessions whose rest is over, until the server has let them go. */
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(
    private readonly open: (signal: AbortSignal) => Promise<Client>,
    private readonly restMs = defaultRestMs,
  ) {}

  /**
   * A session that nobody else uses: the caller gives it back, or breaks it. The signal ends the way to a new one, which does not
   * stand beside one that is being closed.
   */
  async take(signal: AbortSignal): Promise<Client> {
    if (this.#resting.size === 0) await Promise.all(this.#closing);
    const [client] = this.#resting.keys();
    if (client === undefined) return await this.open(signal);
    this.#wake(client);
    return client;
  }

  /** The session is as it was when it was taken: in no transaction, without locks, and with nothing under way. */
  async giveBack(client: Client): Promise<void> {
    if (this.#closed) return await closeClient(client);
    const forget = () => this.#wake(client);
    const timer = setTimeout(() => this.#close(client), this.restMs);
    client.once("end", forget);
    this.#resting.set(client, () => {
      clearTimeout(timer);
      client.off("end", forget);
    });
  }

  /** Resolves when the server has let go of every session that rests. */
  async closeResting(): Promise<void> {
    for (const client of [...this.#resting.keys()]) this.#close(client);
    await Promise.all(this.#closing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.closeResting();
  }

  #close(client: Client): void {
    this.#wake(client);
    const closing = closeClient(client).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #wake(client: Client): void {
    this.#resting.get(client)?.();
    this.#resting.delete(client);
  }
}

/**
 * Runs `work` in a session of the pool, which serves again where it succeeds. The signal breaks the connection, also under a running
 * query. Throws MillraceErrors of `side`, or `signal.reason`.
 */
export async function withPooledSession<Result>(
  pool: SessionPool,
  signal: AbortSignal,
  side: PostgresSide,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = await pool.take(signal);
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const result = await work(client);
    await pool.giveBack(client);
    return result;
  } catch (error) {
    destroyClient(client);
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, side);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
