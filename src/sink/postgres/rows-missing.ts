// Rows are not there that an update is to change in part: it can only be made by one who knows the rest of them.

import { MillraceError } from "../../errors/millrace-error.ts";

export class RowsMissing extends MillraceError {
  constructor() {
    super(
      "sink_rows_missing",
      "Rows that the source has updated are missing, or have moved while the table was copied, and the source did not send " +
        "all of their values (TOAST): the table is copied again.",
    );
  }
}

/** Whether that is what an error comes from. */
export function isRowsMissing(error: unknown): boolean {
  if (error instanceof RowsMissing) return true;
  return error instanceof Error && error.cause !== undefined && isRowsMissing(error.cause);
}
