// The failure that gives up a transaction while it is in progress. The run continues from its checkpoint, and gets the
// transaction again after its commit.

import { MillraceError } from "./millrace-error.ts";

export function givenUp(reason: string, cause?: unknown): MillraceError {
  return new MillraceError("transaction_given_up", `A transaction in progress is given up: ${reason}.`, {
    cause,
  });
}

export function isGivenUp(error: unknown): boolean {
  return error instanceof MillraceError && error.code === "transaction_given_up";
}
