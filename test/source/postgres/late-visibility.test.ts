// A transaction that reaches the stream before other sessions can see it, as with synchronous replication.

import { expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

test("rows with a column that the catalog does not show yet do not go into another column of its name", async () => {
  const settings = { fsync: "off", synchronous_standby_names: "nobody", synchronous_commit: "local" };
  await using server = await PostgresServer.start({ settings });
  await using pair = await PipelineRig.create(server, "late", {
    isSupervised: true,
    pace: { tableCheckMs: 60_000 },
  });
  await pair.source("create table t (id int primary key, a int); insert into t values (1, 1)");
  pair.start();
  await pair.untilRealtime();
  await pair.expectEqual();
  const writer = await server.connect(pair.sourceDatabase);
  await writer.query("set synchronous_commit = on");
  const altered = writer.query(
    "alter table t drop column a; alter table t add column a int; insert into t values (2, 2)",
  );
  const waiting = "select pid from pg_stat_activity where wait_event = 'SyncRep'";
  await waitFor("the commit to wait for a standby", async () => (await pair.source(waiting)).length === 1);
  const asking =
    "select from pg_stat_activity where query like '%pg_visible_in_snapshot%' and pid <> pg_backend_pid()";
  await waitFor(
    "the stream to ask for the transaction",
    async () => (await pair.source(asking)).length === 1,
  );
  expect(await pair.sink("select * from t")).toEqual([{ id: 1, a: 1 }]);
  await pair.source(`select pg_cancel_backend(pid) from (${waiting}) s`);
  await altered;
  await pair.expectEqual();
  expect(await pair.sink("select * from t order by id")).toEqual([
    { id: 1, a: null },
    { id: 2, a: 2 },
  ]);
  await writer[Symbol.asyncDispose]();
  await pair.stop();
});
