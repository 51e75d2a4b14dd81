// One session of the state database. The driver would reconnect by itself, and may never answer a query whose
// connection broke. Here a session ends with its connection, and each operation has a deadline.

import type { ConnectionOptions } from "node:tls";
import postgres, { type Sql } from "postgres";
import { MillraceError } from "../../errors/millrace-error.ts";

/** How to reach the state database. */
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
/** When the connection breaks, the driver first gets this time to report what it knows of a running query. */
const breakMs = 50;
const closeMs = 1_000;

export interface SessionOptions {
  /** Its `application_name`. */
  readonly name: string;
  /** How long an operation, a statement or a transaction, may go without an answer. */
  readonly answerMs: number;
  /** The session is closed after being idle for so long; absent: never. */
  readonly idleSeconds?: number;
  /** The server ends the session when a transaction is idle for so long: a client that is gone must not keep its locks. */
  readonly idleTransactionMs?: number;
  /** Called with what other sessions tell on a channel that this one listens to. */
  readonly onNotify?: (text: string) => void;
  /** Called once, when the session has ended. */
  readonly onEnd?: () => void;
}

export class StateSession implements AsyncDisposable {
  #end: Error | null = null;
  /** What fails each running operation. A promise that all of them waited for would keep their results as long as the session lives. */
  readonly #running = new Set<(error: Error) => void>();

  private constructor(
    private readonly sql: Sql,
    /** Of the server process. */
    readonly pid: number,
    /** Something in between has told the client another process id: a pooler, or a proxy. */
    readonly isProxied: boolean,
    private readonly answerMs: number,
    private readonly onEnd: () => void,
  ) {}

  /** Throws the driver's error. */
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
      ...(options.idleSeconds === undefined ? {} : { idle_timeout: options.idleSeconds }),
      ssl,
      onnotice: () => {},
      // library edge: an option that the driver's types leave out.
      ...{ onnotify: (_channel: string, text: string) => options.onNotify?.(text) },
      onclose: () => opened.session?.fail(new Error("the connection was lost"), breakMs),
    });
    try {
      const idleMs = String(options.idleTransactionMs ?? 0);
      // COMMIT must wait for the WAL: a database or a role may have switched that off.
      const rows = await withDeadline(
        sql<{ pid: number }[]>`
          select pg_backend_pid() as pid, set_config('idle_in_transaction_session_timeout', ${idleMs}, false),
            case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', false) end`,
        options.answerMs,
      );
      const { pid } = rows[0]!;
      const isProxied = rows.state?.pid !== pid;
      opened.session = new StateSession(sql, pid, isProxied, options.answerMs, options.onEnd ?? (() => {}));
      return opened.session;
    } catch (error) {
      close(sql);
      throw error;
    }
  }

  /** It accepts operations. */
  get isOpen(): boolean {
    return this.#end === null;
  }

  /**
   * Runs one statement or transaction. If it is not answered in time, or the connection breaks, it fails and ends the
   * session, before the caller hears of it.
   */
  async run<Result>(operation: (sql: Sql) => Promise<Result>): Promise<Result> {
    if (this.#end) throw this.#end;
    const running = operation(this.sql);
    running.catch(() => {});
    const ended = Promise.withResolvers<never>();
    this.#running.add(ended.reject);
    try {
      return await Promise.race([withDeadline(running, this.answerMs), ended.promise]);
    } catch (error) {
      if (!leavesOpen(error)) this.fail(error instanceof Error ? error : new Error(String(error)), 0);
      throw error;
    } finally {
      this.#running.delete(ended.reject);
    }
  }

  fail(error: Error, afterMs: number): void {
    if (this.#end) return;
    this.#end = error;
    setTimeout(() => {
      for (const reject of this.#running) reject(error);
    }, afterMs);
    close(this.sql);
    this.onEnd();
  }

  /** A running operation fails. Does not wait long for a server that is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.fail(new Error("the session is closed"), 0);
    await Promise.race([this.sql.end({ timeout: 0 }).catch(() => {}), Bun.sleep(closeMs)]);
  }
}

/**
 * Whether the server has answered, or the operation itself failed. Whatever else it is may be a broken connection: of a reset the
 * driver fails the statement first, and closes the connection later.
 */
function leavesOpen(error: unknown): boolean {
  if (error instanceof MillraceError || error instanceof postgres.PostgresError) return true;
  // Drizzle wraps them.
  return error instanceof Error && error.cause !== undefined && leavesOpen(error.cause);
}

async function withDeadline<Result>(answer: PromiseLike<Result>, ms: number): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer within ${ms / 1000} s`)), ms);
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function close(sql: Sql): void {
  void sql.end({ timeout: 0 }).catch(() => {});
}
