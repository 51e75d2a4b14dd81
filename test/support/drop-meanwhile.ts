// Drops a test's databases while the next test begins: Postgres waits for the end of their sessions, and for a checkpoint.

import { escapeIdentifier } from "pg";
import type { PostgresServer } from "../../src/demo/postgres-server.ts";

/** Their slots must be dropped before, and no later test may use the names. The server may end meanwhile: its directory goes as a whole. */
export function dropMeanwhile(server: Pick<PostgresServer, "query">, ...names: readonly string[]): void {
  for (const name of names)
    void server.query(`drop database if exists ${escapeIdentifier(name)} with (force)`).catch(() => {});
}
