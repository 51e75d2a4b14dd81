// A migration that has to wait for a table, and those who use the table meanwhile.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { drizzle } from "drizzle-orm/node-postgres";
import { latestMigration, migrate, migrations } from "../../../src/state/migrations.ts";
import * as schema from "../../../src/state/schema.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const database = "dumped";
let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
  await server.createDatabase(database);
});
afterAll(() => server[Symbol.asyncDispose]());

test("a migration that waits for a backup to end lets others use the table, and names the backup", async () => {
  await server.with(database, (client) => migrate(drizzle(client, { schema }), migrations().slice(0, 9)));
  const reported: string[] = [];
  await using backup = await server.connect(database);
  await backup.query("set application_name = 'pg_dump'");
  await backup.query("begin");
  await backup.query("lock table millrace.connectors in access share mode");
  const [{ pid }] = (await backup.query("select pg_backend_pid() as pid")).rows;
  const opening = openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/${database}`, {
    instance: crypto.randomUUID(),
    reportMaintenance: (error) => void reported.push((error as Error).message),
  });
  opening.catch(() => {});
  await waitFor("the migration waits", async () => {
    const waiting = "select 1 from pg_locks where relation is not null and not granted";
    return (await server.query(waiting, database)).length > 0;
  });
  await using replica = await server.connect(database);
  await replica.query("set statement_timeout = '5s'");
  expect((await replica.query("select id from millrace.connectors")).rows).toEqual([]);
  await waitFor("it is told", () => reported.length > 0);
  await backup.query("commit");
  await using _open = await opening;
  expect(reported[0]).toContain(
    `pid ${pid} (pg_dump, from 127.0.0.1), whose transaction uses millrace.connectors`,
  );
  const latest = "select max(created_at)::float8 as latest from millrace.__drizzle_migrations";
  expect(await server.query(latest, database)).toEqual([{ latest: latestMigration() }]);
});
