// One session of the state database. The driver reconnects by itself, and may leave a question without an answer whose connection is
// cut. Here a session ends with its connection, and each question has a deadline.

import type { ConnectionOptions } from "node:tls";
import postgres, { type Sql } from "postgres";

/** Where the state database is, and how to reach it. */
export interface StateConnection {
  /** A name, an address, or the directory of a Unix socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  readonly ssl: false | ConnectionOptions;
}

const connectSeconds = 10;
const keepAliveSeconds = 30;
/** What the driver knows of a question by when its connection is cut is told first. */
const cutMs = 50;
const goodbyeMs = 1_000;

export interface SessionOptions {
  /** Its `application_name`. */
  readonly name: string;
  /** How long a question, or a transaction, may go without an answer. */
  readonly answerMs: number;
  /** It is closed when nobody has asked it for so long; absent: never. */
  readonly restSeconds?: number;
}

export class StateSession implements AsyncDisposable {
  #end: Error | null = null;
  readonly #ended = Promise.withResolvers<never>();

  private constructor(
    private readonly sql: Sql,
    /** Of its process at the server. */
    readonly pid: number,
    private readonly answerMs: number,
  ) {
    this.#ended.promise.catch(() => {});
  }

  /** Throws what the driver says. */
  static async open(connection: StateConnection, options: SessionOptions): Promise<StateSession> {
    const { host, port, user, password, database, ssl } = connection;
    const opened: { session: StateSession | null } = { session: null };
    const sql = postgres({
      ...(host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }),
      ...{ max: 1, max_pipeline: 1, max_lifetime: null, fetch_types: false, connect_timeout: connectSeconds },
      ...{ keep_alive: keepAliveSeconds, connection: { application_name: options.name } },
      ...(user === undefined ? {} : { user }),
      ...(password === undefined ? {} : { password }),
      ...(database === undefined ? {} : { database }),
      ...(options.restSeconds === undefined ? {} : { idle_timeout: options.restSeconds }),
      ssl,
      onnotice: () => {},
      onclose: () => opened.session?.fail(new Error("the connection was lost"), cutMs),
    });
    try {
      const rows = await withDeadline(
        sql<{ pid: number }[]>`select pg_backend_pid() as pid`,
        options.answerMs,
      );
      opened.session = new StateSession(sql, rows[0]!.pid, options.answerMs);
      return opened.session;
    } catch (error) {
      leave(sql);
      throw error;
    }
  }

  /** It can be asked. */
  get isOpen(): boolean {
    return this.#end === null;
  }

  /** One question or transaction. One that is not answered in time, or whose connection is lost, fails and ends the session. */
  async ask<Result>(question: (sql: Sql) => Promise<Result>): Promise<Result> {
    if (this.#end) throw this.#end;
    const asking = question(this.sql);
    asking.catch(() => {});
    try {
      return await Promise.race([withDeadline(asking, this.answerMs), this.#ended.promise]);
    } catch (error) {
      if (error instanceof Unanswered) this.fail(error, 0);
      throw error;
    }
  }

  fail(error: Error, afterMs: number): void {
    if (this.#end) return;
    this.#end = error;
    setTimeout(() => this.#ended.reject(error), afterMs);
    leave(this.sql);
  }

  /** A question that is under way fails. It does not wait long for a server that is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.fail(new Error("the session is closed"), 0);
    await Promise.race([this.sql.end({ timeout: 0 }).catch(() => {}), Bun.sleep(goodbyeMs)]);
  }
}

export class Unanswered extends Error {
  constructor(ms: number) {
    super(`no answer within ${ms / 1000} s`);
  }
}

async function withDeadline<Result>(answer: PromiseLike<Result>, ms: number): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Unanswered(ms)), ms);
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function leave(sql: Sql): void {
  void sql.end({ timeout: 0 }).catch(() => {});
}
