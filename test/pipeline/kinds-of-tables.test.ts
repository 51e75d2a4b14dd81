// Which tables are carried, and as what: heirs, typed tables, odd names; and what is left alone.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";

setDefaultTimeout(60_000);

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

async function streaming(sql: string, { atSink, ...options }: Setup = {}): Promise<PipelineRig> {
  const pair = await PipelineRig.create(server, `k${++count}`, options);
  await pair.source(sql);
  if (atSink !== undefined) await pair.sink(atSink);
  pair.start();
  await pair.untilRealtime();
  return pair;
}

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
