// A pool of sessions of the state database, one for each statement or transaction. A server that was silent, or whose
// connection broke, may still execute what it was sent. So its session is terminated before anything else runs: nothing
// that was reported as failed may take effect after something that was reported as done.

import type { Sql } from "postgres";
import type { StateConnection } from "./state-session.ts";
import { StateSession } from "./state-session.ts";

const idleSeconds = 60;
/** A transaction makes one statement after the other. It may hold a lease, and others wait for that. */
const idleTransactionMs = 5_000;
const terminateMs = 5_000;
const pollMs = 50;

export class StateSessions implements AsyncDisposable {
  readonly #idle: StateSession[] = [];
  #free: number;
  readonly #waiting: (() => void)[] = [];
  /** Server process ids of sessions that have ended without an answer. */
  readonly #silent = new Set<number>();

  constructor(
    private readonly connection: StateConnection,
    /** The sessions' `application_name`. */
    private readonly name: string,
    private readonly answerMs: number,
    /** How many there are at most. */
    most: number,
  ) {
    this.#free = most;
  }

  /** Runs the operation as soon as a session is free. It fails if it is not answered in time. */
  async within<Result>(operation: (sql: Sql) => Promise<Result>): Promise<Result> {
    await this.#acquire();
    try {
      const session = await this.#take();
      try {
        if (this.#silent.size > 0) await session.run((sql) => this.#terminateSilent(sql));
        return await session.run(operation);
      } catch (error) {
        if (!session.isOpen) this.#silent.add(session.pid);
        throw error;
      } finally {
        if (session.isOpen) this.#idle.push(session);
      }
    } finally {
      this.#release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((session) => session[Symbol.asyncDispose]()));
  }

  async #take(): Promise<StateSession> {
    for (let session = this.#idle.pop(); session; session = this.#idle.pop())
      if (session.isOpen) return session;
    const { connection, name, answerMs } = this;
    const opened = await StateSession.open(connection, { name, answerMs, idleSeconds, idleTransactionMs });
    // A server that was started anew may give the id again.
    this.#silent.delete(opened.pid);
    return opened;
  }

  async #terminateSilent(sql: Sql): Promise<void> {
    const pids = [...this.#silent];
    const isTheirs = sql`pid in ${sql(pids)} and pid <> pg_backend_pid() and application_name = ${this.name}`;
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where ${isTheirs}`;
    for (const deadline = performance.now() + terminateMs; ; await Bun.sleep(pollMs)) {
      const left = await sql`select from pg_stat_activity where ${isTheirs}`;
      if (left.count === 0) break;
      if (performance.now() > deadline) throw new Error("a session that has not answered cannot be ended");
    }
    for (const pid of pids) this.#silent.delete(pid);
  }

  async #acquire(): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
