// Rows are not there that an update is to change in part: it can only be made by one who knows the rest of them.

import { MillraceError } from "../../errors/millrace-error.ts";

export class RowsMissing extends MillraceError {
  constructor() {
    super(
      "sink_rejected_rows",
      "Rows that the source has updated are missing, and the source did not send all of their values (TOAST). " +
        "Create a Snapshot task for this table to mend it.",
    );
  }
}

/** Whether that is what an error comes from. */
export function isRowsMissing(error: unknown): boolean {
  if (error instanceof RowsMissing) return true;
  return error instanceof Error && error.cause !== undefined && isRowsMissing(error.cause);
}
