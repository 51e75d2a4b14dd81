// Hears, on a session of its own, what other replicas change: triggers tell it by NOTIFY. A session that ends is opened
// again. What was told meanwhile is missed, and so listeners are told to look for themselves.
// https://www.postgresql.org/docs/current/sql-notify.html

import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import type { Reopened } from "../database.ts";
import type { Notice, Notices } from "../notices.ts";
import * as schema from "../schema.ts";
import { requireServiceLock, shareServiceLock } from "./migration-lock.ts";
import { type StateConnection, StateSession } from "./state-session.ts";
import { shareUseSql } from "./use-lock.ts";

/** The channel that the triggers of migration 0005 tell. */
const channel = "millrace";
const watchMs = 2_000;
/** After so many attempts without a session, listeners are told to look for themselves. */
const toldAfterFailures = 5;
const answerMs = 5_000;
/** The server drops a session whose client is gone within about a minute: until then the state counts as used. */
const deadSessionSql =
  "set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3; set tcp_user_timeout = '50s'";

/** The application names of sessions by which `instance` changes the state. */
export function sessionName(instance: string): string {
  return `millrace state ${instance}`;
}

export class ServerNotices implements Notices, AsyncDisposable {
  readonly #listeners = new Set<(notice: Notice) => void>();
  #session: StateSession | null = null;
  #watching: Promise<void> | null = null;
  #isClosed = false;
  #failures = 0;
  #timer: Timer | undefined;

  private constructor(
    private readonly connection: StateConnection,
    private readonly instance: string,
    private readonly reopened: Reopened,
  ) {}

  /**
   * Also shows that the state is in use, for as long as it is open. Throws the driver's error, or `invalid_setting` where a service from
   * before leases works on the state. `reopened` is called with each later session, before that counts as open.
   */
  static async open(
    connection: StateConnection,
    instance: string,
    reopened: Reopened,
  ): Promise<ServerNotices> {
    const notices = new ServerNotices(connection, instance, reopened);
    notices.#session = await notices.#openSession(requireServiceLock);
    notices.#timer = setInterval(() => notices.#watch(), watchMs);
    return notices;
  }

  listen(listener: (notice: Notice) => void): () => void {
    // An object of its own: a listener may be there twice.
    const told = (notice: Notice) => listener(notice);
    this.#listeners.add(told);
    return () => {
      this.#listeners.delete(told);
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#watching;
    await this.#session?.[Symbol.asyncDispose]();
  }

  /** An unreachable server is tried again at the next tick. */
  #watch(): void {
    if (this.#isClosed) return;
    this.#watching ??= this.#verify()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#watching = null;
      });
  }

  async #verify(): Promise<void> {
    await this.#session?.run(async (sql) => await sql`select`).catch(() => this.#drop());
    if (this.#session?.isOpen || this.#isClosed) return;
    // Without the lock this replica works on all the same: its leases keep it apart from others.
    this.#session = await this.#openSession(shareServiceLock, this.reopened);
    this.#failures = 0;
    this.#tell({ what: "missed" });
  }

  /** Other sessions may work on, so that nothing else shows that this replica hears nothing. */
  #failed(error: unknown): void {
    this.#failures += 1;
    if (this.#failures % toldAfterFailures === 0) this.#tell({ what: "missed", error });
  }

  #drop(): void {
    void this.#session?.[Symbol.asyncDispose]();
    this.#session = null;
  }

  async #openSession(
    lock: (sql: Sql) => Promise<unknown>,
    opened: Reopened = async () => {},
  ): Promise<StateSession> {
    const session = await StateSession.open(this.connection, {
      name: `millrace notices ${this.instance}`,
      answerMs,
      onNotify: (text) => this.#hear(text),
      // At once, where the connection says that it has ended. Before there is a session, its opening fails.
      onEnd: () => {
        if (this.#session !== null) this.#watch();
      },
    });
    try {
      await session.run(async (sql) => {
        await sql.unsafe(deadSessionSql);
        await lock(sql);
        await sql.unsafe(shareUseSql);
        await sql.unsafe(`listen ${channel}`);
      });
      await session.run((sql) => opened(drizzle(sql, { schema })));
      return session;
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  #hear(text: string): void {
    const notice = readNotice(text, sessionName(this.instance));
    if (notice) this.#tell(notice);
  }

  #tell(notice: Notice): void {
    for (const listener of [...this.#listeners]) listener(notice);
  }
}

/** Null: it is our own, or one that a later build knows. */
export function readNotice(text: string, own: string): Notice | null {
  const told = parsed(text);
  if (!told || told.by === own || typeof told.connector !== "string") return null;
  const { what, connector, task } = told;
  if (what === "connector" || what === "lease") return { what, connector };
  return what === "task" && typeof task === "string" ? { what, connector, task } : null;
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}
