// The one error class. Every error that leaves a folder is of this class: a code from the table in error-codes.ts, and
// a sentence that says what to do. It has no secret and no row value.

import { type ErrorCode, errorKinds, type Retry } from "./error-codes.ts";

/** A violation in a request: a JSON pointer into the body, and what was expected there. */
export interface Violation {
  readonly path: string;
  readonly message: string;
}

/** A table whose rows the sink refuses, so that nothing of the connector goes on. */
export interface RefusedTable {
  /** At the source. */
  readonly schema: string;
  readonly name: string;
  /** SQL to run at the sink, each statement without a semicolon; empty: none is known that mends it. */
  readonly commands: readonly string[];
}

export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly violations: readonly Violation[];
  /** Null: the error is not about one table's rows. */
  readonly table: RefusedTable | null;
  /** SQL that would help, each statement without a semicolon. The message has it too. */
  readonly commands: readonly string[];

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      cause?: unknown;
      violations?: readonly Violation[];
      table?: RefusedTable | null;
      commands?: readonly string[];
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.violations = options.violations ?? [];
    this.table = options.table ?? null;
    this.commands = options.commands ?? [];
  }

  get status(): number {
    return errorKinds[this.code].status;
  }

  get title(): string {
    return errorKinds[this.code].title;
  }

  get retry(): Retry {
    return errorKinds[this.code].retry;
  }
}

/** `error` as one of a table whose rows were refused. The server's error stays its cause. */
export function ofTable(error: MillraceError, table: RefusedTable, message = error.message): MillraceError {
  const { code, cause, violations, commands } = error;
  return new MillraceError(code, message, { cause, violations, commands, table });
}

/** Any thrown value as a MillraceError. A foreign one becomes `fallback`, with itself as the cause. */
export function toMillraceError(error: unknown, fallback: ErrorCode = "internal"): MillraceError {
  if (error instanceof MillraceError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new MillraceError(fallback, message, { cause: error });
}
