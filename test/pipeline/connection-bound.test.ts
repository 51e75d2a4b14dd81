// max_pool_size bounds what a connector opens at either side, while it copies and looks after everything else.

import { expect, setDefaultTimeout, test } from "bun:test";
import { parallelCopies } from "../../src/connector/parallel-copies.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import {
  fullConnection,
  logicalReplication,
  postgresSink,
  postgresSource,
} from "../support/connector-config.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";
import { waitFor } from "../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(60_000);

test("no more connections stand at source and sink than either allows", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const roles = ["bound_source", "bound_sink"];
  await server.query(roles.map((role) => `create role ${role} login superuser`).join("; "));
  const connection = (role: string, max_pool_size: number) =>
    fullConnection({ ...server.connection(role), user: role }, { max_pool_size });
  const [source, sink] = [connection("bound_source", 8), connection("bound_sink", 5)];
  const parallel = parallelCopies({
    source: { postgres: postgresSource(source, { connection: source }) },
    sink: { postgres: postgresSink(sink, { connection: sink }) },
  });
  // What the rig copies side by side.
  expect(parallel).toBe(3);
  await using rig = await PipelineRig.create(server, "bound", {
    source: { connection: source },
    sink: { connection: sink },
    copyPace: { dividedFromBytes: 100_000, rangeBytes: 50_000, pointHeldMs: 50 },
  });
  const tables = Array.from({ length: 4 }, (_, i) => `t${i}`);
  const fill = (name: string) =>
    `create table ${name} (id int primary key, v text); insert into ${name} select i, repeat('x', 100) from generate_series(1, 10000) i`;
  await rig.source(`${tables.map(fill).join("; ")}; analyze`);

  const most = new Map<string, number>();
  const over = new AbortController();
  const watching = (async () => {
    await using client = await server.connect();
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ role: string; n: number }>(
        "select usename as role, count(*)::int as n from pg_stat_activity where usename = any($1) group by 1",
        [roles],
      );
      for (const { role, n } of rows) most.set(role, Math.max(n, most.get(role) ?? 0));
    }
  })();
  rig.start();
  await rig.untilRealtime();
  await rig.source(`${fill("late")}; create table empty (id int primary key)`);
  await rig.expectEqual();
  expect(await rig.snapshot("late", true)).toBeNull();
  over.abort();
  await watching;
  expect(most.get("bound_source")).toBeLessThanOrEqual(source.max_pool_size);
  expect(most.get("bound_sink")).toBeLessThanOrEqual(sink.max_pool_size);
  expect(most.get("bound_source")).toBeGreaterThan(3);
  await rig.stop();
});

test("one session at the sink does everything, also for a role that may have no other", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query(
    "create role lone login connection limit 1; grant set on parameter session_replication_role to lone; create role reader login replication",
  );
  const connection = { ...server.connection("lone_sink"), user: "lone" };
  const settings = { ...server.connection("lone_source"), user: "reader" };
  await using rig = await PipelineRig.create(server, "lone", {
    source: {
      connection: fullConnection(settings),
      replication_type: { logical_replication: logicalReplication("everything") },
    },
    sink: {
      connection: fullConnection(connection, { max_pool_size: 1 }),
      migration_strategy: { allowed: [], disable_all: false },
    },
    parallelCopies: 1,
    retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 },
    copyPace: { dividedFromBytes: 100_000, rangeBytes: 50_000, pointHeldMs: 50 },
  });
  await rig.sink("grant all on database lone_sink to lone; grant all on schema public to lone");
  await rig.source(`create publication everything for all tables; create table denied (id int primary key); insert into denied values (1);
    create table t (id int primary key, v text); insert into t select i, repeat('x', 100) from generate_series(1, 10000) i; grant select on t to reader; analyze`);
  rig.start();
  await rig.untilRealtime();
  expect(rig.setAside.map(({ name }) => name)).toEqual(["denied"]);
  await rig.source("grant select on denied to reader; insert into t values (0, 'a')");
  await rig.expectEqual();
  await rig.sink("delete from t where id % 2 = 0");
  expect(await rig.snapshot("t", true)).toBeNull();
  await rig.expectEqual();

  await rig.source("alter table t add column more int; insert into t values (-1, 'b', 1)");
  await waitFor("the table to be set aside", () => rig.setAside.some(({ name }) => name === "t"));
  await rig.sink(rig.setAside.flatMap(({ commands }) => commands).join("; "));
  await rig.expectEqual();
  await rig.stop();
});
