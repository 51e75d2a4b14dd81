// The error of an update whose row is missing or cannot be identified: the change alone does not have all of the row's values.

import { MillraceError } from "../../../errors/millrace-error.ts";

export class RowsMissing extends MillraceError {
  constructor(
    reason = "Rows that the source has updated are missing, or have moved while the table was copied, and the source did not send " +
      "all of their values (TOAST): only another copy of the table brings them.",
  ) {
    super("sink_rows_missing", reason);
  }
}

/** Whether `error` or one of its causes is RowsMissing. */
export function isRowsMissing(error: unknown): boolean {
  if (error instanceof RowsMissing) return true;
  return error instanceof Error && error.cause !== undefined && isRowsMissing(error.cause);
}
