// What a dead run's sessions still see cannot be vacuumed away, and they outlive it by a moment. Neither can what the server's own ANALYZE sees.

import { waitFor } from "../wait-for.ts";

const others = `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
  and (backend_xmin is not null or backend_type in ('client backend', 'walsender') and application_name like 'millrace%')`;

/** Vacuums the table when no session is left in its database that could see it: the place of rows that are gone is free then. */
export async function vacuum(
  query: (sql: string) => Promise<readonly object[]>,
  table: string,
): Promise<void> {
  await waitFor("the end of sessions that see the table", async () => (await query(others)).length === 0);
  await query(`vacuum ${table}`);
}
