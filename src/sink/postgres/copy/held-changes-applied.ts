// Applies what was kept of a table's changes, behind its copy: in their order, each transaction as a whole, as the stream would have.

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ApplyTransaction } from "../apply/apply-transaction.ts";
import type { SinkTables } from "../sink-tables.ts";
import type { HeldChanges } from "./held-changes.ts";

/** Between two pieces the stream brings one batch, or all of one transaction: there is an end, under any load. */
const leastCommits = 2;

/**
 * A piece of what is kept, between two batches; `at`: where the checkpoint is, and stays. Returns whether more is kept: when nothing
 * is, changes of the table are applied as they come.
 */
export async function applyHeld(
  client: Client,
  held: HeldChanges,
  transaction: ApplyTransaction,
  tableId: number,
  at: Lsn,
): Promise<boolean> {
  const begunAt = performance.now();
  const { form } = transaction;
  try {
    for (let commits = 0; ; ) {
      const next = await held.next(client, tableId);
      if (next === null) break;
      const { batch, place } = next;
      transaction.form = batch.form;
      const refused = await held.applying(tableId, () => transaction.apply(client, batch));
      if (refused) throw refused.error;
      await held.applied(client, tableId, place);
      if (batch.endsInTransaction) continue;
      await transaction.commit(client, at, at);
      commits++;
      if (commits >= leastCommits && performance.now() - begunAt >= held.pieceMs) return true;
    }
    // The table has none of the changes that the last transaction ended with.
    if (transaction.isOpen) await transaction.commit(client, at, at);
  } catch (error) {
    // What it holds would be committed with the next batch, and is kept still.
    await transaction.giveUp(client);
    throw error;
  } finally {
    transaction.form = form;
  }
  await held.end(client, tableId);
  return false;
}

/**
 * All of what is kept of tables that are copied, unless somebody else sees to it, and of those that are not to be copied any more
 * (`makesCopies`): as the stream would have brought it. Returns whether there was any. In no transaction.
 */
export async function applyAllHeld(
  client: Client,
  { held, ledger }: SinkTables,
  transaction: ApplyTransaction,
  at: Lsn,
  makesCopies: boolean,
): Promise<boolean> {
  const isDue = (id: number) => !makesCopies || ledger.pointOf(id) !== null;
  const due = held.tableIds.filter((id) => !held.isBeingCopied({ id }) && isDue(id));
  for (const id of due) {
    try {
      while (await applyHeld(client, held, transaction, id, at)) {}
    } catch (error) {
      if (!(error instanceof MillraceError) || error.code !== "stream_form_changed") throw error;
      // They came as bytes that the table takes no longer: a copy brings what they would have.
      await ledger.voidById(client, id);
      await held.end(client, id);
    }
  }
  return due.length > 0;
}
