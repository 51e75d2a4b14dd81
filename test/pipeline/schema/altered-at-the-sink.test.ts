// Somebody gives a column at the sink another type while the stream runs. The bytes of one type are not those of another, and the
// server would take them: a bigint's as a numeric of another value.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (source: string, sink?: string, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `as${++count}`, { source, sink }, { isSupervised: true, ...options });

const columns = "id int primary key, n bigint, m bigint, r int";
const otherTypes = "alter n type numeric, alter m type double precision, alter r type real";

test.each([
  ["a column gets another type", undefined, `alter table t ${otherTypes}`],
  [
    "a table in partitions",
    `create table t (${columns}) partition by range (id); create table t_rest partition of t default`,
    `alter table t ${otherTypes}`,
  ],
  [
    "another table takes the name",
    undefined,
    `begin; create table new (like t including all); alter table new ${otherTypes}; insert into new select * from t;
     alter table t rename to former; alter table new rename to t; commit`,
  ],
])("rows that are inserted later have their values: %s", async (_, before, altering) => {
  await using pair = await streaming(`create table t (${columns})`, before);
  await pair.source("insert into t values (1, 100, 100, 100)");
  await pair.expectEqual();
  await pair.sink(altering);
  await pair.source("insert into t values (2, 200, 200, 200)");
  await pair.source("insert into t values (3, 9999, 9999, 9999)");
  await pair.expectEqual();
  expect(pair.streamForms).toEqual(["binary", "text"]);
  await pair.stop();
});

test("a table whose types stay takes bytes as before, whatever else is done to it", async () => {
  await using pair = await streaming(`create table t (${columns}); create table u (${columns})`);
  const insert = (id: number) =>
    pair.source(
      `begin; insert into t values (${id}, 1, 1, 1); insert into u values (${id}, 1, 1, 1); commit`,
    );
  await insert(1);
  await pair.expectEqual();
  await pair.sink("alter table t add own timestamptz default now(); alter table u alter m set not null");
  await pair.sink("vacuum full t");
  await insert(2);
  await pair.expectSame("select id, n, m, r from t order by id");
  await pair.source("begin; truncate t; insert into t values (9, 9, 9, 9); commit");
  await insert(3);
  await pair.expectSame("select id, n, m, r from t order by id");
  // The sink follows within its transaction.
  await pair.source(
    "begin; insert into u values (4, 4, 4, 4); alter table u alter r type bigint; insert into u values (5, 5, 5, 5); commit",
  );
  await pair.expectSame("select id, n, m, r from u order by id");
  expect(pair.streamForms).toEqual(["binary"]);
  await pair.stop();
});

test("rows of a transaction that is in progress, too", async () => {
  await using pair = await PipelineRig.create(server, `as${++count}`, { isSupervised: true });
  await pair.source("create table t (id int primary key, n bigint)");
  await pair.sendInProgress();
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, 100)");
  await pair.expectEqual();
  await pair.sink("alter table t alter n type numeric");
  await pair.source("insert into t values (2, 200)");
  await pair.expectEqual();
  await pair.stop();
});

test("a history is set aside, as one that was altered before the run", async () => {
  await using pair = await streaming("create table t (id int primary key, n bigint)", undefined, {
    source: { catalog: withHistory("t") },
  });
  await pair.source("insert into t values (1, 100)");
  await untilTold(pair, "id, n", "t_history", 1);
  await pair.sink("drop view t_versions; alter table t_history alter n type numeric");
  await pair.source("insert into t values (2, 200)");
  await waitFor("it to be set aside", () => pair.setAside.length === 1);
  for (const command of pair.setAside[0]?.commands ?? []) await pair.sink(command);
  expect(await untilTold(pair, "id, n", "t_history", 2)).toEqual(["c 1|100", "r 2|200"]);
  await pair.stop();
});
