// max_pool_size bounds what a connector opens at either side, while it copies and looks after everything else.

import { expect, setDefaultTimeout, test } from "bun:test";
import { parallelCopies } from "../../src/connector/parallel-copies.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { fullConnection, postgresSink, postgresSource } from "../support/connector-config.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";

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
