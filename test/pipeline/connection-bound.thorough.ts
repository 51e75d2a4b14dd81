// max_pool_size bounds what a connector opens at either side, while it copies and looks after everything else.

import { expect, test } from "bun:test";
import { Client } from "pg";
import { areConnectionsBounded, parallelCopies } from "../../src/connector/config/parallel-copies.ts";
import {
  fullConnection,
  logicalReplication,
  postgresSink,
  postgresSource,
} from "../support/api/connector-config.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { openPoints } from "../support/servers/open-points.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const roles = ["bound_source", "bound_sink"];

interface Servers {
  readonly source: PostgresServer;
  readonly sink: PostgresServer;
}

/** A connector whose sides log in as roles of their own, with so many connections each. */
async function bounded(
  servers: Servers,
  name: string,
  sourceSize: number,
  sinkSize: number,
): Promise<PipelineRig> {
  const connection = (side: keyof Servers, max_pool_size: number) =>
    fullConnection(
      { ...servers[side].connection(`${name}_${side}`), user: `bound_${side}` },
      { max_pool_size },
    );
  const [source, sink] = [connection("source", sourceSize), connection("sink", sinkSize)];
  const sides = {
    source: { postgres: postgresSource(source, { connection: source }) },
    sink: { postgres: postgresSink(sink, { connection: sink }) },
  };
  return await PipelineRig.create(servers.source, name, {
    sinkServer: servers.sink,
    source: { connection: source },
    sink: { connection: sink },
    parallelCopies: parallelCopies(sides),
    areConnectionsBounded: areConnectionsBounded(sides),
    copyPace: { dividedFromBytes: 100_000, rangeBytes: 200_000, pointHeldMs: 50 },
  });
}

/** What the most connections that each role had at once call themselves, until it is disposed of. */
function watchConnections(
  servers: Servers,
): AsyncDisposable & { readonly most: () => readonly (readonly string[])[] } {
  const most = new Map<string, readonly string[]>();
  const over = new AbortController();
  const watch = async (server: PostgresServer) => {
    await using client = await server.connect();
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ role: string; names: readonly string[] }>(
        "select usename as role, array_agg(application_name order by 1) as names from pg_stat_activity " +
          "where usename = any($1) group by 1",
        [roles],
      );
      for (const { role, names } of rows)
        if (names.length > (most.get(role)?.length ?? 0)) most.set(role, names);
    }
  };
  const watching = Promise.all([watch(servers.source), watch(servers.sink)]);
  return {
    most: () => roles.map((role) => most.get(role) ?? []),
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await watching;
    },
  };
}

/** Fails with the names of all of them. */
function expectAtMost(connections: readonly string[], most: number): void {
  expect(connections.length > most ? connections : []).toEqual([]);
}

const fill = (name: string) =>
  `create table ${name} (id int primary key, v text); insert into ${name} select i, repeat('x', 100) from generate_series(1, 10000) i`;

test("no more connections stand at source and sink than either allows", async () => {
  // On one server the transactions of copies that are held would hold up the next point.
  await using source = await PostgresServer.start({ settings: { fsync: "off" } });
  await using sink = await PostgresServer.start({ settings: { fsync: "off" } });
  const servers = { source, sink };
  for (const server of [source, sink])
    await server.query(roles.map((role) => `create role ${role} login superuser`).join("; "));
  {
    await using rig = await bounded(servers, "bound", 8, 5);
    await rig.source(`${["t0", "t1", "t2", "t3"].map(fill).join("; ")}; analyze`);
    await using connections = watchConnections(servers);
    rig.start();
    await rig.untilRealtime();
    await rig.source(`${fill("late")}; create table empty (id int primary key)`);
    await rig.expectEqual();
    expect(await rig.snapshot("late", true)).toBeNull();
    const [atSource = [], atSink = []] = connections.most();
    expectAtMost(atSource, 8);
    expect(atSource.length).toBeGreaterThan(3);
    expectAtMost(atSink, 5);
    await rig.stop();
  }
  await using rig = await bounded(servers, "tasks", 13, 10);
  await rig.source(`${["t0", "t1"].map(fill).join("; ")}; analyze`);
  rig.start();
  await rig.untilRealtime();
  // Sessions that have served rest for a moment.
  const readers = "select from pg_stat_activity where application_name = 'millrace snapshot'";
  await waitFor("the copies' sessions to end", async () => (await rig.source(readers)).length === 0);
  // A table that comes while two tasks read all that they may read at once.
  const held = Promise.withResolvers<void>();
  rig.copiesHeld = held.promise;
  const before = rig.copies.length;
  await using connections = watchConnections(servers);
  const tasks = [rig.snapshot("t0", true), rig.snapshot("t1", false)];
  const areReading = async () =>
    rig.copies.length >= before + 3 && (await rig.source(openPoints)).length >= 2;
  await waitFor("both to have points, and one to read", areReading);
  await rig.source(["late0", "late1"].map(fill).join("; "));
  await waitFor("the new table to be read", () => rig.copies.some(({ table }) => table.startsWith("late")));
  held.resolve();
  expect(await Promise.all(tasks)).toEqual([null, null]);
  await rig.expectEqual();
  const [atSource = [], atSink = []] = connections.most();
  expectAtMost(atSource, 13);
  expect(atSource.length).toBeGreaterThan(6);
  expectAtMost(atSink, 10);
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

test.each([2, 3])(
  "a repair takes no session beside those of its comparison, where %d may be open",
  async (most) => {
    await using server = await PostgresServer.start({ settings: { fsync: "off" } });
    await server.query(
      `create role tight login connection limit ${most}; grant set on parameter session_replication_role to tight`,
    );
    const connection = { ...server.connection("tight_sink"), user: "tight" };
    await using rig = await PipelineRig.create(server, "tight", {
      sink: { connection: fullConnection(connection, { max_pool_size: most }) },
      parallelCopies: 1,
    });
    await rig.sink("grant all on database tight_sink to tight; grant all on schema public to tight");
    await rig.source(
      "create table t (id int primary key, v text); insert into t select i, 'a' from generate_series(1, 3000) i; analyze",
    );
    rig.start();
    await rig.untilRealtime();
    await rig.expectEqual();
    await rig.sink("update t set v = 'wrong'");
    const sessions = "select from pg_stat_activity where usename = 'tight'";
    await waitFor("the copy's session to end", async () => (await server.query(sessions)).length === 1);
    // It stands for the one that checks the others. That may be refused.
    const observer = new Client(connection);
    if (most > 2) await observer.connect();
    try {
      expect(await rig.verify("t", "Apply")).toMatchObject({ changed: 3000, repaired: 3000 });
    } finally {
      await observer.end();
    }
    await rig.expectEqual();
    await rig.stop();
  },
);
