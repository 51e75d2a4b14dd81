// Questions that the server answers by opening every table of a publication, which fail as a whole when one of them is
// dropped meanwhile.

import { sqlStateOf } from "../../connection/postgres-failure.ts";
import { sqlState } from "../../connection/sql-state.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

/** Where tables are dropped all the time, one look in a few meets it. */
const maxLooks = 10;

/**
 * What `look` gives once no table is dropped under it. It is called outside of a transaction, again and again. Throws
 * `table_changed` when it is disturbed each time, and what `look` throws otherwise.
 * https://www.postgresql.org/docs/current/view-pg-publication-tables.html
 */
export async function lookUndisturbed<T>(look: () => Promise<T>): Promise<T> {
  for (let looks = 1; ; looks++) {
    try {
      return await look();
    } catch (error) {
      if (!isTableGone(error)) throw error;
      if (looks < maxLooks) continue;
      throw new MillraceError(
        "table_changed",
        "Tables were dropped again and again while they were looked at.",
        {
          cause: error,
        },
      );
    }
  }
}

/** It has no SQLSTATE of its own. */
function isTableGone(error: unknown): boolean {
  return (
    sqlStateOf(error) === sqlState.internalError &&
    /^(could not open relation with OID|cache lookup failed for relation)/.test((error as Error).message)
  );
}
