// Rows are not there, or cannot be told, that an update is to change: it can only be made by one who knows the rest of them.

import { MillraceError } from "../../../errors/millrace-error.ts";

export class RowsMissing extends MillraceError {
  constructor(
    reason = "Rows that the source has updated are missing, or have moved while the table was copied, and the source did not send " +
      "all of their values (TOAST): the table is copied again.",
  ) {
    super("sink_rows_missing", reason);
  }
}

/** Whether that is what an error comes from. */
export function isRowsMissing(error: unknown): boolean {
  if (error instanceof RowsMissing) return true;
  return error instanceof Error && error.cause !== undefined && isRowsMissing(error.cause);
}
