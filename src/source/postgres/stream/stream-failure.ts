// Translates what ended a replication stream, or prevented its start.

import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

/**
 * pgoutput looks up publications as they were when the change was logged: creating one again does not help. A slot that
 * was dropped between its check and the start of the stream is transient here; the next check says what happened to it.
 */
export function describeStreamError(error: unknown): MillraceError {
  const state = sqlStateOf(error);
  const isOfSlot = state === sqlState.objectNotInPrerequisiteState || /replication slot/.test(String(error));
  if (isOfSlot && (state === sqlState.undefinedObject || state === sqlState.objectNotInPrerequisiteState)) {
    const text = "The replication slot can no longer be read from.";
    return new MillraceError("source_connection_lost", text, { cause: error });
  }
  if (state !== sqlState.undefinedObject) return describePostgresError(error, "source");
  return new MillraceError(
    "publication_missing",
    "A publication of this connector was dropped, and changes that were logged without it cannot be decoded any more. " +
      "Send the command ReInitialize to copy the tables again.",
    { cause: error },
  );
}
