// Which tables are carried, and as what: heirs, typed tables, odd names; and what is left alone.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

interface Setup extends RigOptions {
  /** What is at the sink already. */
  readonly atSink?: string;
}

const streaming = (source: string, { atSink, ...options }: Setup = {}) =>
  PipelineRig.streaming(server, `k${++count}`, { source, sink: atSink }, options);

test("heirs are tables of their own, also where they are heirs at the sink", async () => {
  const tables =
    "create table p (id int primary key, v text); create table c (extra int) inherits (p); alter table c add primary key (id)";
  await using pair = await streaming(
    `${tables}; create table bag (x int); alter table bag replica identity full; create table bag2 () inherits (bag);
     alter table bag2 replica identity full; insert into bag values (1), (1); insert into bag2 values (1);
     insert into p values (1, 'p'); insert into c values (1, 'c', 1), (2, 'c2', 2)`,
    { atSink: `${tables}; create table bag (x int); create table bag2 () inherits (bag)` },
  );
  await pair.source(
    "update only p set v = 'P'; insert into p values (2, 'p2'); delete from only p where id = 1",
  );
  await pair.source("update only bag set x = 2; delete from only bag; insert into bag values (3)");
  await pair.expectEqual();
  await pair.source("truncate only p; insert into p values (2, 'again')");
  await pair.expectEqual();
  expect(await pair.snapshot("p", false)).toBeNull();
  expect(await pair.snapshot("p", true)).toBeNull();
  await pair.expectEqual();
  await pair.source("truncate p; insert into c values (9, 'last', 9)");
  await pair.expectEqual();
  await pair.stop();
});

test("a key that the source computes is no key: inserts are carried, or all changes under replica identity full", async () => {
  const key = "g int generated always as (b * 2) stored, primary key (a, g)";
  await using pair = await streaming(
    `create table k (a int, b int, ${key}); insert into k values (1, 1), (1, 2);
     create table f (a int, b int, ${key}); alter table f replica identity full; insert into f values (1, 1), (1, 2)`,
    { atSink: `create table k (a int, b int, ${key})` },
  );
  await pair.source(
    "insert into k values (1, 3); insert into f values (1, 3); update f set b = 5 where b = 1; delete from f where b = 2",
  );
  await pair.expectSame("select a, b from k order by 1, 2");
  await pair.expectSame("select a, b from f order by 1, 2");
  // The application's statements go on; a row that takes the place of one whose deletion is not carried replaces it alone.
  await pair.source(
    "update k set a = 2 where b = 3; delete from k where b = 1; alter table f add column c int; update f set c = 1 where b = 5",
  );
  await pair.expectSame("select a, b, c from f order by 1, 2");
  expect(await pair.snapshot("k", false)).toBeNull();
  await pair.expectSame("select a, b from k order by 1, 2");
  await pair.stop();
});

test("what the service keeps at a sink is not carried on from there", async () => {
  await using pair = await streaming(
    "create schema millrace; create table millrace.checkpoint (connector_id text primary key); create table millrace.mine (id int primary key); create table t (id int primary key)",
  );
  await pair.source(
    "insert into millrace.checkpoint values ('x'); insert into millrace.mine values (1); insert into t values (1)",
  );
  await pair.expectSame("select t.id, m.id as mine from t, millrace.mine m");
  await pair.stop();
  expect(await pair.sink("select from millrace.checkpoint where connector_id = 'x'")).toEqual([]);
});
