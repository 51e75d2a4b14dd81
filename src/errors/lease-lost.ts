// The failure of a run whose connector another replica runs by now, under a higher term.

import { MillraceError } from "./millrace-error.ts";

/** `detail`: whole sentences. */
export function leaseLost(detail?: string): MillraceError {
  const text = "Another replica runs this connector now.";
  return new MillraceError("lease_lost", detail === undefined ? text : `${text} ${detail}`);
}
