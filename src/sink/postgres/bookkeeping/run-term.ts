// Records under which term the connector was opened at the sink last. A session that holds the connector's lock is ended by the next run, and
// needs no other fence. But a process that was frozen opens further sessions when it goes on, and may find the next run between two attempts,
// with no session that would tell. A copy of its would replace rows by older ones.

import type { Client } from "pg";
import type { RunOwner } from "../../../connection/run-session.ts";
import { leaseLost } from "../../../errors/lease-lost.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";

/** A term of another owner is one of an earlier connector of this id, or of another installation's: terms begin anew. */
const takeSql = `
insert into millrace.run_term as r (connector_id, owner, term) values ($1, $2, $3)
on conflict (connector_id) do update set owner = excluded.owner, term = excluded.term
where r.owner <> excluded.owner or r.term < excluded.term`;

const newerQuery =
  "select term::text from millrace.run_term where connector_id = $1 and owner = $2 and term > $3";

interface Run extends RunOwner {
  readonly connectorId: string;
}

/** With the connector's lock held by this session alone. Durable on return. Throws `lease_lost` where a higher term was here. */
export async function takeTerm(client: Client, run: Run): Promise<void> {
  if (!isFenced(run)) return;
  await requireTerm(client, run);
  await client.query(takeSql, [run.connectorId, run.owner, run.term]);
}

/** With the connector's lock held, shared or not: no other run can take a term meanwhile. Throws `lease_lost`. */
export async function requireTerm(client: Client, run: Run): Promise<void> {
  if (!isFenced(run)) return;
  const { connectorId, owner, term } = run;
  const { rows } = await client.query<{ term: string }>(newerQuery, [connectorId, owner, term]);
  if (rows[0]) throw outrun(run, rows[0].term);
}

function isFenced({ owner, term }: Run): boolean {
  return owner !== undefined && term !== undefined && term !== null;
}

function outrun({ connectorId, term }: Run, newer: string): MillraceError {
  return leaseLost(
    `Its term at the sink is ${newer}, and this one's ${term}. If the state was restored from a backup, so that terms began anew: ` +
      `DELETE FROM millrace.run_term WHERE connector_id = '${connectorId}';`,
  );
}
