// What a dead run's sessions still see cannot be vacuumed away, and they outlive it by a moment.

import { waitFor } from "./wait-for.ts";

const others = `select from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')
    and (application_name like 'millrace%' or backend_xmin is not null)`;

/** Vacuums the table when no session of a run is left in its database: the place of rows that are gone is free then. */
export async function vacuum(
  query: (sql: string) => Promise<readonly object[]>,
  table: string,
): Promise<void> {
  await waitFor("the end of the run's sessions", async () => (await query(others)).length === 0);
  await query(`vacuum ${table}`);
}
