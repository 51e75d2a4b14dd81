// The Drizzle database that the stores use, over either driver.

import type { PgDatabase, PgQueryResultHKT } from "drizzle-orm/pg-core";
import { MillraceError } from "../errors/millrace-error.ts";
import type * as schema from "./schema.ts";

export type Database = PgDatabase<PgQueryResultHKT, typeof schema>;

/** A database that is open. Disposing closes it and gives up its lock. */
export interface OpenDatabase extends AsyncDisposable {
  readonly database: Database;
  /** Aborted when another service may own the state by now, or the database has died: this service must stop. */
  readonly lost: AbortSignal;
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

/** The driver's own message, which quotes no parameter, and its code. */
function describeFailure(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause instanceof Error) innermost = innermost.cause;
  if (!(innermost instanceof Error)) return "unknown failure";
  const code = (innermost as { code?: unknown }).code;
  const text = innermost.message.startsWith("Failed query") ? "a statement failed" : innermost.message;
  return typeof code === "string" ? `${text} (${code})` : text;
}
