import { expect, test } from "bun:test";
import { begun, idsIn, never, textOf } from "../../../support/contract/source.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

test("a point keeps nothing of the log, and stays readable where the server keeps little", async () => {
  await using server = await PostgresServer.start({
    settings: { fsync: "off", max_slot_wal_keep_size: "1MB" },
  });
  await using at = await begun(server);
  await at.sql("insert into t select g, 'as of the point' from generate_series(1, 3) g");
  const [table] = await at.source.tables();
  await using point = await at.source.snapshotPoint(never);
  expect(await at.sql("select slot_name from pg_replication_slots where temporary")).toEqual([]);
  expect(await at.sql("select from pg_stat_activity where backend_type = 'walsender'")).toEqual([]);
  for (let id = 4; id < 10; id++) await at.sql(`insert into t values (${id}); select pg_switch_wal()`);
  await at.sql("checkpoint");
  expect(await at.sql("select wal_status from pg_replication_slots")).toEqual([{ wal_status: "lost" }]);
  for (const _ of [1, 2])
    expect(idsIn(await textOf(at.source.readTable(table!, point, "text")))).toEqual([1, 2, 3]);
});
