// Compares a history with its table, and appends what differs: the one way in which a history begins, and catches up with a copy.

import type { Client } from "pg";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { timeText } from "./history-body.ts";
import { type Reconciled, reconcileSql } from "./reconcile-sql.ts";

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
  const place = [formatLsn(at), timeUs === 0n ? null : timeText(timeUs)];
  for (const sql of reconcileSql(reconciled, rowCount === 0)) await client.query(sql, place);
}
