// Adds to the error of a table whose rows the sink refuses that the connector's other tables wait for it. Pure.

import { type MillraceError, ofTable } from "../../errors/millrace-error.ts";

/** The stream has one order: what comes behind a refused row waits. */
export function tellOfWaitingTables(error: MillraceError): MillraceError {
  const { table } = error;
  if (table === null) return error;
  const end = /[.;]$/.test(error.message) ? "" : ".";
  return ofTable(error, table, `${error.message}${end} All tables of the connector wait for this one.`);
}
