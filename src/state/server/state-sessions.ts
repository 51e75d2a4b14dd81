// Sessions of the state database, for one question or transaction each. What a silent server was asked may still be done when it is
// heard of again: its session is ended before anything else is asked, so that nothing that was told as failed comes behind what was
// told as done.

import type { Sql } from "postgres";
import type { StateConnection } from "./state-session.ts";
import { StateSession, Unanswered } from "./state-session.ts";

const applicationName = "millrace state";
const mostSessions = 4;
const restSeconds = 60;
const endMs = 5_000;
const endLookMs = 50;

export class StateSessions implements AsyncDisposable {
  readonly #idle: StateSession[] = [];
  #free = mostSessions;
  readonly #waiting: (() => void)[] = [];
  /** Process ids of sessions that have not answered. */
  readonly #silent = new Set<number>();

  constructor(
    private readonly connection: StateConnection,
    private readonly answerMs: number,
  ) {}

  /** Waits for a session as long as others take. A question that is not answered in time fails. */
  async within<Result>(question: (sql: Sql) => Promise<Result>): Promise<Result> {
    await this.#turn();
    try {
      const session = await this.#take();
      try {
        if (this.#silent.size > 0) await session.ask((sql) => this.#endSilent(sql));
        return await session.ask(question);
      } catch (error) {
        if (error instanceof Unanswered) this.#silent.add(session.pid);
        throw error;
      } finally {
        if (session.isOpen) this.#idle.push(session);
      }
    } finally {
      this.#next();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((session) => session[Symbol.asyncDispose]()));
  }

  async #take(): Promise<StateSession> {
    for (let session = this.#idle.pop(); session; session = this.#idle.pop())
      if (session.isOpen) return session;
    const { connection, answerMs } = this;
    return await StateSession.open(connection, { name: applicationName, answerMs, restSeconds });
  }

  async #endSilent(sql: Sql): Promise<void> {
    const pids = [...this.#silent];
    const isTheirs = sql`pid in ${sql(pids)} and pid <> pg_backend_pid() and application_name = ${applicationName}`;
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where ${isTheirs}`;
    for (const deadline = performance.now() + endMs; ; await Bun.sleep(endLookMs)) {
      const left = await sql`select from pg_stat_activity where ${isTheirs}`;
      if (left.count === 0) break;
      if (performance.now() > deadline) throw new Error("a session that has not answered cannot be ended");
    }
    for (const pid of pids) this.#silent.delete(pid);
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #next(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
