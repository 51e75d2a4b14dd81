// Checks the sink's deferred constraints before COMMIT, to find the change that they refuse. apply-transaction.ts deals with it.
// https://www.postgresql.org/docs/current/sql-set-constraints.html

import type { Client } from "pg";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { lastAccepted, longestPrefix } from "../refusals/longest-prefix.ts";
import { isRowRefused, withPosition } from "../refusals/refused-row.ts";
import { describeRefusedLate } from "../refusals/refused-rows.ts";

/** Throws a MillraceError where COMMIT would fail. `commitLsn`: of the only transaction that can be to blame; null: one of several. */
export async function checkDeferred(client: Client, commitLsn: Lsn | null = null): Promise<void> {
  try {
    await client.query("set constraints all immediate");
  } catch (error) {
    const refusal = describeRefusedLate(error);
    throw commitLsn !== null && isRowRefused(refusal) ? withPosition(refusal, commitLsn) : refusal;
  }
}

/**
 * The index of the change that is to blame in the first refused transaction. Inside a transaction rows may violate a deferred constraint for
 * a while, so the last change after which it stays violated counts.
 */
export async function refusedAtEnd(
  { transaction, count }: ChangeBatch,
  isAccepted: (count: number) => Promise<boolean>,
): Promise<number> {
  const ends: number[] = [];
  for (let i = 1; i <= count; i++) if (i === count || transaction[i] !== transaction[i - 1]) ends.push(i);
  const taken = await longestPrefix(ends.length, (length) => isAccepted(ends[length - 1]!));
  return await lastAccepted(ends[taken - 1] ?? 0, ends[taken]!, isAccepted);
}
