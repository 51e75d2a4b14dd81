// Truncates at the sink the tables that the source has truncated, and no others.

import type { Client } from "pg";
import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import { succeeds } from "../../../connection/in-savepoint.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PreparedTable } from "./prepared-table.ts";

/**
 * Never uses CASCADE: the source names every table that its own CASCADE reached, and the sink may have others. If a foreign key of another
 * table prevents TRUNCATE, the rows are deleted.
 */
export async function truncateTables(
  client: Client,
  tables: readonly PreparedTable[],
  restartIdentity: boolean,
): Promise<void> {
  const names = tables.map((table) => table.ownRows);
  const truncate = `truncate ${names.join(", ")}${restartIdentity ? " restart identity" : ""}`;
  // Otherwise another table refers to one of these.
  if (await succeeds(client, sqlState.featureNotSupported, () => client.query(truncate))) return;
  for (const name of names) await client.query(`delete from ${name}`);
}

/** Whether change `i` is of the TRUNCATE that `first` is of. */
export function isSameTruncate(batch: ChangeBatch, i: number, first: number): boolean {
  return (
    batch.kind[i] === ChangeKind.truncate &&
    batch.transaction[i] === batch.transaction[first] &&
    batch.newStart[i] === batch.newStart[first]
  );
}
