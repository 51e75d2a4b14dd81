// What ends an attempt to carry a transaction while it is in progress. The run goes on from its checkpoint, and is sent such
// transactions when they are committed.

import { MillraceError } from "./millrace-error.ts";

export function givenUp(reason: string, cause?: unknown): MillraceError {
  return new MillraceError("transaction_given_up", `A transaction in progress is given up: ${reason}.`, {
    cause,
  });
}

export function isGivenUp(error: unknown): boolean {
  return error instanceof MillraceError && error.code === "transaction_given_up";
}
