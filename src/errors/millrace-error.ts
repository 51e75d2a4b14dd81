// The one error class. Every error that leaves a folder is of this class: a code from the table in error-codes.ts, and
// a sentence that says what to do. It has no secret and no row value.

import { type ErrorCode, errorKinds, type Retry } from "./error-codes.ts";

/** A violation in a request: a JSON pointer into the body, and what was expected there. */
export interface Violation {
  readonly path: string;
  readonly message: string;
}

export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly violations: readonly Violation[];

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; violations?: readonly Violation[] } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.violations = options.violations ?? [];
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

/** Any thrown value as a MillraceError. A foreign one becomes `fallback`, with itself as the cause. */
export function toMillraceError(error: unknown, fallback: ErrorCode = "internal"): MillraceError {
  if (error instanceof MillraceError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new MillraceError(fallback, message, { cause: error });
}
