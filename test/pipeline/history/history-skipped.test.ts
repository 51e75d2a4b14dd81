// Histories of tables whose changes are not applied, as a copy has them already or is to bring them: they get every change all the same.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", logical_decoding_work_mem: "64kB" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (source: string, tables: readonly string[], options: RigOptions = {}) =>
  PipelineRig.streaming(
    server,
    `skipped${++count}`,
    { source },
    { isSupervised: true, ...options, source: { catalog: withHistory(...tables), ...options.source } },
  );

/** What `sql` changes comes to the sink in one batch, if not too large. */
async function inOneBatch(rig: PipelineRig, sql: string): Promise<void> {
  const writing = Promise.withResolvers<void>();
  rig.writesHeld = writing.promise;
  // It is held itself, so that what comes behind it gathers.
  await rig.source("insert into held values (1)");
  await Bun.sleep(200);
  await rig.source(sql);
  await Bun.sleep(300);
  writing.resolve();
}

const nothingAltered = { migration_strategy: { allowed: [], disable_all: false } };

/** With `nothingAltered` the table waits for a column. */
async function setAside(rig: PipelineRig, table: string): Promise<void> {
  await rig.source(`alter table ${table} add waits int; update ${table} set v = 'waits' where id = 1`);
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
}

test("a table that is set aside is altered in the batch: rows of its former shape go where they belong", async () => {
  await using rig = await streaming(
    `create table held (id int); create table a (id int primary key, v text, w text); insert into a values (1, 'v', 'w')`,
    ["a"],
    { sink: nothingAltered },
  );
  await untilTold(rig, "id", "a_history", 1);
  await setAside(rig, "a");
  await untilTold(rig, "id", "a_history", 2);
  await inOneBatch(
    rig,
    `update a set v = 'v2', w = 'w2'; alter table a rename w to x; alter table a rename v to w;
     alter table a rename x to v; update a set v = 'w3'`,
  );
  expect((await untilTold(rig, "v, w", "a_history", 4)).slice(2)).toEqual(["u w2|v2", "u w3|v2"]);
});

test("a large transaction in progress of a table that is made, with a history, while none has one", async () => {
  await using rig = await streaming(
    "create table held (id int); create table other (id int primary key, v text); create table later (id int primary key)",
    ["later"],
    { maxBufferedRows: 100, skipSnapshots: true },
  );
  await rig.stop();
  await rig.source("drop table later");
  rig.start();
  await rig.untilRealtime();
  await rig.source("create table later (id int primary key, v text)");
  await waitFor(
    "it to be published",
    async () =>
      (await rig.source("select from pg_publication_tables where tablename = 'later'")).length === 1,
  );
  await rig.source("insert into later values (0, 'v')");
  expect(await untilTold(rig, "id", "later_history", 1)).toEqual(["c 0"]);
  await using large = await rig.sourceSession();
  await large.query("begin; insert into other select g, repeat('x', 100) from generate_series(1, 3000) g");
  await waitFor("a part at the sink", async () => {
    const held = await rig.sink(
      `select from pg_stat_activity where datname = current_database() and application_name like 'millrace copy %'
         and backend_xid is not null and state = 'idle in transaction'`,
    );
    return held.length === 1;
  });
  await large.query("insert into later select g, 'v' || g from generate_series(1, 3000) g; commit");
  expect((await untilTold(rig, "id", "later_history", 3001)).length).toBe(3001);
  await rig.expectEqual();
  expect(await rig.sink("select count(distinct _sm_lsn)::int as places from later_history")).toEqual([
    { places: 2 },
  ]);
});

test("a column that begins anew takes what an update does not send from the table", async () => {
  await using rig = await streaming(
    `create table held (id int); create table a (id int primary key, v text, big text); alter table a alter big set storage external;
     insert into a select g, 'v', (select string_agg(md5(n::text), '') from generate_series(1, 300) n) from generate_series(1, 3) g`,
    ["a"],
  );
  await untilTold(rig, "id", "a_history", 3);
  await inOneBatch(
    rig,
    `alter table a alter big type bytea using big::bytea; update a set v = 'v2' where id = 1; update a set id = 4 where id = 2;
     delete from a where id = 3; update a set v = 'v3' where id = 1`,
  );
  const rows = await untilTold(rig, "id, v, length(big)", "a_history", 8);
  expect(rows.slice(3, 8)).toEqual(["u 1|v2|9600", "d 2|v|9600", "u 4|v|9600", "d 3|v|9600", "u 1|v3|9600"]);
  await rig.expectEqual();
});

test("a large value that many skipped updates leave alone is not held once for each of them", async () => {
  await using rig = await streaming(
    `create table held (id int); create table a (id int primary key, v text, big text);
     alter table a alter column big set storage external; alter table a replica identity default;
     insert into a values (1, 'v', repeat('x', 100000))`,
    ["a"],
    { sink: nothingAltered },
  );
  await untilTold(rig, "id", "a_history", 1);
  await setAside(rig, "a");
  await untilTold(rig, "id", "a_history", 2);
  await rig.source(`begin; update a set big = repeat('y', 100000);
    do $$ begin for i in 1..999 loop update a set v = i; end loop; end $$; commit`);
  await untilTold(rig, "id", "a_history", 1002);
  const [facts] = await rig.sink<{ versions: number; values: number; writes: number }>(
    `select count(distinct v)::int as versions, count(*) filter (where big = repeat('y', 100000))::int as values,
      count(distinct cmin::text)::int as writes from a_history where _sm_op = 'u' and v <> 'waits' or big like 'y%'`,
  );
  expect(facts).toMatchObject({ versions: 1000, values: 1000 });
  expect(facts!.writes).toBeGreaterThan(1);
  await rig.stop();
});
