// Constraints that PostgreSQL 18 has brought, at the source and at the sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ major: 18, settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const create = (options: RigOptions = {}) =>
  PipelineRig.create(server, `newest${++count}`, { isSupervised: true, ...options });

const divided = { copyPace: { dividedFromBytes: 1, rangeBytes: 20_000 } };

test.each([
  ["as a whole", {}],
  ["in ranges", divided],
])("rows with null from before a NOT NULL that is not valid are copied %s", async (_, options) => {
  await using rig = await create(options);
  await rig.source(`create table t (id int primary key, v text);
    insert into t select g, case when g > 1 then repeat('x', 200) end from generate_series(1, 500) g;
    alter table t add constraint later not null v not valid; analyze t`);
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t values (1000, 'new')");
  await rig.expectEqual();
  expect(rig.setAside).toEqual([]);
  await rig.stop();
});

test.each([
  ["as a whole", {}],
  ["in ranges", divided],
])(
  "rows of a table whose key at the sink is WITHOUT OVERLAPS are matched by equality, copied %s",
  async (_, options) => {
    await using rig = await create(options);
    await rig.source(`create table t (id int, during daterange, v text, primary key (id, during));
    create table r (room int4range, during daterange, v text, primary key (room, during));
    insert into t select g, '[2026-01-01,2026-02-01)', repeat('x', 200) from generate_series(1, 500) g;
    insert into r values ('[1,3)', '[2026-01-01,2026-02-01)', 'a'), ('[2,4)', '[2026-01-01,2026-02-01)', 'b'); analyze`);
    await rig.sink(`create extension btree_gist;
    create table t (id int, during daterange, v text, primary key (id, during without overlaps));
    create table r (room int4range, during daterange, v text, primary key (room, during without overlaps))`);
    rig.start();
    await rig.untilRealtime();
    await rig.source(`begin; update t set v = 'new' where id < 20; delete from t where id between 20 and 30;
    update t set during = '[2026-03-01,2026-04-01)' where id = 40; insert into t values (40, '[2026-01-01,2026-02-01)', 'too');
    update r set v = 'c' where v = 'a'; commit`);
    await rig.source(
      "update r set v = 'd' where v = 'b'; insert into r values ('[1,2)', '[2027-01-01,2027-02-01)', 'e')",
    );
    await rig.source("delete from r where v = 'd'");
    await rig.expectEqual();
    expect(await rig.snapshot("t", false, true)).toBeNull();
    expect(await rig.snapshot("r", false)).toBeNull();
    await rig.expectEqual();
    await rig.stop();
  },
);
