// Compares a history with its table, or with some of its rows, and appends what differs: the one way in which a history begins, and catches up with
// a copy.

import type { Client } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { timeText } from "./history-body.ts";
import { type Reconciled, reconcileKeysSql, reconcileSql } from "./reconcile-sql.ts";

export interface ReconcilePlace {
  /** The table's rows are as of here. */
  readonly at: Lsn;
  /** In microseconds since 1970; 0: not known. */
  readonly timeUs: bigint;
}

/** In the open transaction. */
export async function reconcile(
  client: Client,
  reconciled: Reconciled,
  { at, timeUs }: ReconcilePlace,
): Promise<void> {
  const { rowCount } = await client.query(`select from ${sqlName(reconciled.history)} limit 1`);
  for (const sql of reconcileSql(reconciled, rowCount === 0)) await client.query(sql, values({ at, timeUs }));
}

/**
 * In the transaction that copies the rows with these keys, as of `at`. The stream stands there when rows are repaired. It may be behind it when rows
 * are completed: a change that it brings until then is told twice, with its own place and as what differs.
 */
export async function reconcileKeys(
  client: Client,
  reconciled: Reconciled,
  place: ReconcilePlace,
  keys: readonly RowKey[],
): Promise<void> {
  // As a parameter, so that the keys are in no statement's text.
  await client.query(reconcileKeysSql(reconciled), [...values(place), JSON.stringify(keys)]);
}

function values({ at, timeUs }: ReconcilePlace): (string | null)[] {
  return [formatLsn(at), timeUs === 0n ? null : timeText(timeUs)];
}
