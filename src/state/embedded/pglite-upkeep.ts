// What a Postgres server does in background processes and PGlite, a single process, does not: checkpoints, without which
// its log grows for ever, and vacuum, without which its tables do.

import type { PGlite } from "@electric-sql/pglite";
import { schemaName } from "../schema.ts";

/** Told of a round that failed. */
export type UpkeepReport = (error: unknown) => void;

export interface UpkeepOptions {
  /** How often it is looked whether something is due. */
  readonly intervalMs: number;
  /** Bytes of log after which it is. */
  readonly walBytes: number;
}

export const defaultUpkeep: UpkeepOptions = { intervalMs: 15_000, walBytes: 8 * 1024 * 1024 };

/** Long before transaction ids are used up (2 billion), and rarely: it reads every table. */
const freezeAge = 100_000_000;

/** Keeps the database small until disposed of. */
export function keepUp(
  client: PGlite,
  report: UpkeepReport,
  options: UpkeepOptions = defaultUpkeep,
): AsyncDisposable {
  let upkept = "0/0";
  let round: Promise<void> | null = null;
  const look = async () => {
    const { rows } = await client.query<{ lsn: string; bytes: string; age: number }>(
      `select pg_current_wal_insert_lsn()::text lsn, pg_current_wal_insert_lsn() - $1::pg_lsn bytes,
        (select age(datfrozenxid) from pg_database where datname = current_database()) age`,
      [upkept],
    );
    const [now] = rows;
    if (!now) return;
    if (upkept !== "0/0" && Number(now.bytes) < options.walBytes) return;
    if (now.age > freezeAge) await client.exec("vacuum (freeze)");
    for (const table of await ownTables(client)) await client.exec(`vacuum ${table}`);
    await client.exec("checkpoint");
    upkept = now.lsn;
  };
  const timer = setInterval(() => {
    round ??= look()
      .catch(report)
      .finally(() => {
        round = null;
      });
  }, options.intervalMs);
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await round;
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
