// Constraints that PostgreSQL 18 has brought, at the source and at the sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";

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
