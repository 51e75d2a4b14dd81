// Constraints that the sink checks at COMMIT only: checked sooner, to find what they refuse. What is done about it is
// apply-transaction.ts's.
// https://www.postgresql.org/docs/current/sql-set-constraints.html

import type { Client } from "pg";
import type { ChangeBatch } from "../../../change/change-batch.ts";
import { describeRefusedLate } from "../copy/refused-rows.ts";
import { lastTaken, longestPrefix } from "./longest-prefix.ts";

/** Throws a MillraceError where COMMIT would fail. */
export async function checkDeferred(client: Client): Promise<void> {
  try {
    await client.query("set constraints all immediate");
  } catch (error) {
    throw describeRefusedLate(error);
  }
}

/**
 * The change that leaves the first transaction that is refused as it is. Within one, rows may break a deferred constraint for a
 * while: the last that begins to break it counts.
 */
export async function refusedAtEnd(
  { transaction, count }: ChangeBatch,
  isTaken: (count: number) => Promise<boolean>,
): Promise<number> {
  const ends: number[] = [];
  for (let i = 1; i <= count; i++) if (i === count || transaction[i] !== transaction[i - 1]) ends.push(i);
  const taken = await longestPrefix(ends.length, (length) => isTaken(ends[length - 1]!));
  return await lastTaken(ends[taken - 1] ?? 0, ends[taken]!, isTaken);
}
