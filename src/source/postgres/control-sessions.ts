// The sessions in which a run asks the source about its tables, its slot and the log it keeps. A pool reuses them, and
// a session watch guards them. Where `max_pool_size` is set, two may be open at once, including those that check other
// sessions.

import type { Client } from "pg";
import { isIdle } from "../../connection/postgres-client.ts";
import { type Permits, Semaphore } from "../../connection/semaphore.ts";
import { SessionPool, withPooledSession } from "../../connection/session-pool.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { PostgresConnection } from "../../connector/config/connection.ts";
import { connectForRun, type SourceRun } from "./run-sessions.ts";

const maxBoundedSessions = 2;

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
  async with<T>(action: (client: Client) => Promise<T>, signal = this.signal): Promise<T> {
    const release = await this.#permits.acquire(signal);
    try {
      return await withPooledSession(this.#pool, signal, "source", (client) =>
        whileWatched({ ...this.watched(client), isClientBusy: () => isIdle(client) }, () => action(client)),
      );
    } finally {
      release();
    }
  }

  /** As `with`, for an action that may wait as long as another session's transaction lasts. */
  async withForLong<T>(action: (client: Client) => Promise<T>, signal: AbortSignal): Promise<T> {
    const release = await this.#longPermits.acquire(signal);
    try {
      return await this.with(action, signal);
    } finally {
      release();
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
