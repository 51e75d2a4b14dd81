// The snapshot points of a source's database that are open now.

export const openPoints = `select from pg_stat_activity
  where datname = current_database() and state = 'idle in transaction' and query like '%pg_export_snapshot%'`;
