// The Drizzle database that the stores use, over either driver.

import { type SQL, sql } from "drizzle-orm";
import type { PgDatabase, PgQueryResultHKT } from "drizzle-orm/pg-core";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Notices } from "./notices.ts";
import type * as schema from "./schema.ts";

export type Database = PgDatabase<PgQueryResultHKT, typeof schema>;

/** A database that is open. Disposing closes it and gives up its lock. */
export interface OpenDatabase extends AsyncDisposable {
  readonly database: Database;
  /** Aborted when this service can never work on the state again, or the database has died: it must stop. */
  readonly lost: AbortSignal;
  /** Null: nobody else can open it. */
  readonly shared: SharedDatabase | null;
}

/**
 * One session shows others that the state is in use. This is called when that session was lost, and is open again. It gets that session: nothing
 * else waits for it.
 */
export type Reopened = (database: Database) => Promise<void>;

/** A database that several replicas may use. */
export interface SharedDatabase {
  /** The same, by a session of its own: a replica that begins a thousand runs must not let renewals wait for what they ask. */
  readonly forLeases: Database;
  /**
   * Hears of others, and shows them that the state is in use. After an interruption it hears nothing before `reopened` has succeeded. The
   * caller disposes it. Throws `state_unavailable`.
   */
  listen(reopened: Reopened): Promise<Notices & AsyncDisposable>;
  /** This service can never work here again. */
  lose(reason: MillraceError): void;
}

/**
 * Runs one operation on the state. A failure of the store becomes `state_unavailable`, without Drizzle's message, which
 * contains the statement and its parameters.
 */
export async function stored<Result>(operation: Promise<Result>): Promise<Result> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof MillraceError) throw error;
    throw new MillraceError("state_unavailable", `The state store failed: ${describeFailure(error)}`);
  }
}

/** The rows of a statement that Drizzle cannot build. Numbers are to be cast to float8: drivers read int8 in other ways. */
export async function rowsOf<Row>(database: Database, query: SQL): Promise<readonly Row[]> {
  // library edge: one driver returns the rows, the other an object with them, and their common type says neither.
  const result = (await database.execute(query)) as unknown as
    | readonly Row[]
    | { readonly rows: readonly Row[] };
  return "rows" in result ? result.rows : result;
}

/**
 * What a statement begins with that runs often and has one of a few texts: a session of a server keeps its plan. Others
 * would fill the session's memory.
 */
export const keptPlan = sql.raw("/* kept */");

export function hasKeptPlan(text: string): boolean {
  return text.startsWith("/* kept */");
}

/** The SQLSTATE of a failed statement, or null. Drizzle keeps the driver's error as the cause. */
export function sqlState(error: unknown): string | null {
  for (let current = error; current instanceof Error; current = current.cause) {
    const code = (current as { code?: unknown }).code;
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) return code;
  }
  return null;
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
export const uniqueViolation = "23505";
export const foreignKeyViolation = "23503";
/** What codes of values begin with that the database cannot take. */
export const dataException = "22";

/** The driver's own message, which quotes no parameter, and its code. */
export function describeFailure(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause instanceof Error) innermost = innermost.cause;
  if (!(innermost instanceof Error)) return "unknown failure";
  const code = (innermost as { code?: unknown }).code;
  const text = innermost.message.startsWith("Failed query") ? "a statement failed" : innermost.message;
  return typeof code === "string" ? `${text} (${code})` : text;
}
