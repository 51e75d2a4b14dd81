// Maintenance that a Postgres server does in background processes, which PGlite lacks: checkpoints, without which the
// WAL grows forever, and vacuum, without which the tables do.

import type { PGlite } from "@electric-sql/pglite";
import { schemaName } from "../schema.ts";

/** Called with the error of a failed pass. */
export type MaintenanceReport = (error: unknown) => void;

export interface MaintenanceOptions {
  /** How often to check whether maintenance is due. */
  readonly intervalMs: number;
  /** WAL growth after which it is due. */
  readonly walBytes: number;
}

const defaultMaintenance: MaintenanceOptions = { intervalMs: 15_000, walBytes: 8 * 1024 * 1024 };

/** Long before transaction ids run out (2 billion), but rarely, because freezing reads every table. */
const freezeAge = 100_000_000;

/** Keeps the database small until it is disposed of. */
export function startMaintenance(
  client: PGlite,
  report: MaintenanceReport,
  options: MaintenanceOptions = defaultMaintenance,
): AsyncDisposable {
  let maintainedTo = "0/0";
  let pass: Promise<void> | null = null;
  const maintain = async () => {
    const { rows } = await client.query<{ lsn: string; bytes: string; age: number }>(
      `select pg_current_wal_insert_lsn()::text lsn, pg_current_wal_insert_lsn() - $1::pg_lsn bytes,
        (select age(datfrozenxid) from pg_database where datname = current_database()) age`,
      [maintainedTo],
    );
    const [now] = rows;
    if (!now) return;
    if (maintainedTo !== "0/0" && Number(now.bytes) < options.walBytes) return;
    if (now.age > freezeAge) await client.exec("vacuum (freeze)");
    for (const table of await ownTables(client)) await client.exec(`vacuum ${table}`);
    await client.exec("checkpoint");
    maintainedTo = now.lsn;
  };
  const timer = setInterval(() => {
    pass ??= maintain()
      .catch(report)
      .finally(() => {
        pass = null;
      });
  }, options.intervalMs);
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await pass;
    },
  };
}

async function ownTables(client: PGlite): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1",
    [schemaName],
  );
  return rows.map(({ name }) => name);
}
