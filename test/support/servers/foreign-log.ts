// Log that is not for a connector: how much of it the server keeps for the connector's slot.

import { parseLsn } from "../../../src/change/lsn.ts";
import type { PostgresServer } from "./postgres-server.ts";

/** Makes the server log about this many megabytes of rows in `table` of `database`. */
export async function writeElsewhere(
  server: PostgresServer,
  database: string,
  table: string,
  megabytes: number,
): Promise<void> {
  await using client = await server.connect(database);
  await client.query(
    `create table if not exists ${table} (x text); alter table ${table} alter x set storage external`,
  );
  for (let i = 0; i < megabytes; i += 16) {
    await client.query(`insert into ${table} select repeat('x', 8000) from generate_series(1, 2048)`);
    await client.query(`truncate ${table}`);
  }
}

/** Bytes from the slot's restart_lsn to the end of the log: what the server keeps for it. */
export async function keptBytes(server: PostgresServer, slot: string): Promise<number> {
  const [row] = await server.query<{ restart: string; end: string }>(
    `select restart_lsn::text as restart, pg_current_wal_lsn()::text as end from pg_replication_slots where slot_name = '${slot}'`,
  );
  return Number(parseLsn(row!.end) - parseLsn(row!.restart));
}
