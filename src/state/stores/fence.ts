// Fencing: what is written under a term that is no longer a connector's is refused. A writer locks the key of the connector's
// lease, which the term is a part of, for as long as it writes. So nobody takes the lease between the check and the commit, and
// one that had to wait for a take-over finds the next term. A renewal changes no key: it waits for no writer, however long that
// takes. Whoever writes locks leases first, in the order of connectors.

import { and, eq, type SQL, sql } from "drizzle-orm";
import type { Term } from "../../connector/term.ts";
import { leaseLost } from "../../errors/lease-lost.ts";
import type { Database } from "../database.ts";
import { leases } from "../replica-tables.ts";

/**
 * Runs `work` in a transaction under the term; without a term by itself. Throws `lease_lost`. `update`: the work removes
 * the lease.
 */
export async function fenced<Result>(
  database: Database,
  { connectorId, term, lock = "key share" }: Fence,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  if (term === null) return work(database);
  return database.transaction(async (transaction) => {
    await lockLease(transaction, { connectorId, term, lock });
    return await work(transaction);
  });
}

export interface Fence {
  readonly connectorId: string;
  readonly term: Term;
  readonly lock?: "key share" | "update";
}

/** In the transaction of `database`. Throws `lease_lost`. */
export async function lockLease(
  database: Database,
  { connectorId, term, lock = "key share" }: Fence,
): Promise<void> {
  if (term === null) return;
  const isHeld = and(eq(leases.connectorId, connectorId), eq(leases.term, term));
  const held = await database.select({ term: leases.term }).from(leases).where(isHeld).for(lock);
  if (held.length === 0) throw leaseLost();
}

/** For one statement: the connector's id if it is still under the term. */
export function heldLease(connectorId: string, term: number): SQL {
  return sql`select l.connector_id from ${leases} l
    where l.connector_id = ${connectorId} and l.term = ${term}::bigint for key share of l`;
}
