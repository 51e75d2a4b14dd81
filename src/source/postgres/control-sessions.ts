// The sessions that a run asks the source in: for its tables, its slot, the log that is kept. They are used one after the other, and
// watched. Where `max_pool_size` bounds the connections there are two at once, those that look after other sessions among them.

import type { Client } from "pg";
import { connectPostgres, isIdle } from "../../connection/postgres-client.ts";
import { SessionPool, withPooledSession } from "../../connection/session-pool.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import { type TakesTurns, Turns } from "../../connection/turns.ts";
import type { PostgresConnection } from "../../connector/config/connection.ts";

const mostWhereBounded = 2;

export class ControlSessions implements AsyncDisposable {
  /** Of those who look after the source's sessions, in one of their own; undefined: nothing bounds them. */
  readonly looks: TakesTurns | undefined;
  readonly #pool: SessionPool;
  readonly #turns: Turns;
  /** Who may wait for long in a session leaves the other one to the rest. */
  readonly #waits: Turns;

  constructor(
    private readonly connection: PostgresConnection,
    private readonly signal: AbortSignal,
  ) {
    const isBounded = connection.max_pool_size > 0;
    this.looks = isBounded ? { take: () => this.#takeLook() } : undefined;
    this.#turns = new Turns(isBounded ? mostWhereBounded : Number.POSITIVE_INFINITY);
    this.#waits = new Turns(isBounded ? mostWhereBounded - 1 : Number.POSITIVE_INFINITY);
    this.#pool = new SessionPool((until) => connectPostgres(connection, "control", until, "source"));
  }

  /** Runs `action` in a session that nobody else uses, and that may stand idle meanwhile. Throws MillraceErrors, or `signal.reason`. */
  async with<T>(action: (client: Client) => Promise<T>, signal = this.signal): Promise<T> {
    const endTurn = await this.#turns.take(signal);
    try {
      return await withPooledSession(this.#pool, signal, "source", (client) =>
        whileWatched({ ...this.watched(client), isOurTurn: () => isIdle(client) }, () => action(client)),
      );
    } finally {
      endTurn();
    }
  }

  /** As `with`, for what may take as long as somebody else's transaction. */
  async withForLong<T>(action: (client: Client) => Promise<T>, signal: AbortSignal): Promise<T> {
    const endTurn = await this.#waits.take(signal);
    try {
      return await this.with(action, signal);
    } finally {
      endTurn();
    }
  }

  /** A session of the source's, to be watched. */
  watched(client: Client): WatchedSession {
    const { connection, signal, looks } = this;
    return { connection, side: "source", client, turns: looks, signal };
  }

  /** Sessions that rest make room. */
  async #takeLook(): Promise<() => void> {
    const endTurn = await this.#turns.take();
    await this.#pool.closeResting();
    return endTurn;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool[Symbol.asyncDispose]();
  }
}
