// The sessions in which a run asks the source about its tables, its slot and the log it keeps. A pool reuses them, and
// a session watch guards them. Where `max_pool_size` is set, two may be open at once, including those that check other
// sessions.

import type { Client } from "pg";
import { type Permits, Semaphore } from "../../concurrency/semaphore.ts";
import { closeClient, destroyClient, isIdle } from "../../connection/postgres-client.ts";
import { SessionPool, withPooledSession } from "../../connection/session-pool.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { PostgresConnection } from "../../connector/config/connection.ts";
import { connectForRun, type SourceRun } from "./run-sessions.ts";

const maxBoundedSessions = 2;
const giveBackMs = 1_000;

export interface KeptSession {
  readonly client: Client;
  /** Ends its transaction. */
  readonly giveBack: () => Promise<void>;
}

export class ControlSessions implements AsyncDisposable {
  /** Permits for sessions that check the source's other sessions; undefined: their number is not bounded. */
  readonly checkPermits: Permits | undefined;
  readonly #pool: SessionPool;
  readonly #permits: Semaphore;
  /** Leaves one session to short work while another waits for long. */
  readonly #longPermits: Semaphore;

  constructor(
    private readonly connection: PostgresConnection,
    private readonly signal: AbortSignal,
    run: SourceRun = {},
  ) {
    const isBounded = connection.max_pool_size > 0;
    this.checkPermits = isBounded ? { acquire: () => this.#acquireForCheck() } : undefined;
    this.#permits = new Semaphore(isBounded ? maxBoundedSessions : Number.POSITIVE_INFINITY);
    this.#longPermits = new Semaphore(isBounded ? maxBoundedSessions - 1 : Number.POSITIVE_INFINITY);
    this.#pool = new SessionPool((until) => connectForRun(connection, "control", until, run));
  }

  /**
   * Runs `action` in a session of its own, which may idle between statements. Throws MillraceErrors, or
   * `signal.reason`.
   */
  with<T>(action: (client: Client) => Promise<T>, signal = this.signal): Promise<T> {
    return this.#within(this.#pool, action, signal);
  }

  async #within<T>(
    pool: Pick<SessionPool, "take" | "giveBack">,
    action: (client: Client) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const release = await this.#permits.acquire(signal);
    try {
      return await withPooledSession(pool, signal, "source", (client) =>
        whileWatched({ ...this.watched(client), isClientBusy: () => isIdle(client) }, () => action(client)),
      );
    } finally {
      release();
    }
  }

  /**
   * As `with`, for an action that may wait as long as another session's transaction lasts. What it returns has the session
   * from then on, in an open transaction, and gives it back.
   */
  async withKept<T>(action: (session: KeptSession) => Promise<T>, signal: AbortSignal): Promise<T> {
    const release = await this.#longPermits.acquire(signal);
    const pool = { take: (until: AbortSignal) => this.#pool.take(until), giveBack: async () => {} };
    try {
      const kept = (client: Client) => ({ client, giveBack: () => this.#end(client) });
      return await this.#within(pool, (client) => action(kept(client)), signal);
    } finally {
      release();
    }
  }

  /** Where sessions are counted, an idle one may be one too many. */
  async #end(client: Client): Promise<void> {
    if (this.connection.max_pool_size > 0) return await closeClient(client);
    const late = setTimeout(() => destroyClient(client), giveBackMs);
    try {
      await client.query("rollback");
      await this.#pool.giveBack(client);
    } catch {
      // The connection was broken already.
      destroyClient(client);
    } finally {
      clearTimeout(late);
    }
  }

  /** A session of the source, as a session watch takes it. */
  watched(client: Client): WatchedSession {
    const { connection, signal, checkPermits } = this;
    return { connection, side: "source", client, permits: checkPermits, signal };
  }

  /** Closes the pool's idle sessions first: they count towards `max_pool_size`. */
  async #acquireForCheck(): Promise<() => void> {
    const release = await this.#permits.acquire();
    await this.#pool.closeIdle();
    return release;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool[Symbol.asyncDispose]();
  }
}
