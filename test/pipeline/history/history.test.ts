// The history of a table at a Postgres sink: every change is a row, once, whatever becomes of the batch.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { told, untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (sql: string, tables = ["t"], options: RigOptions = {}) =>
  PipelineRig.streaming(
    server,
    `history${++count}`,
    { source: sql },
    { ...options, source: { catalog: withHistory(...tables), ...options.source } },
  );

const large = "(select string_agg(md5(g::text || $), '') from generate_series(1, 300) g)";
const long = (seed: string) => large.replace("$", `'${seed}'`);

for (const forms of [["binary", "text"], ["text"]] as const) {
  test(`every change is a row, as ${forms[0]}`, async () => {
    await using rig = await streaming(
      "create table t (id int primary key, v text); insert into t values (1, 'a'), (2, 'b')",
      ["t"],
      { forms },
    );
    expect(await untilTold(rig, "id, v", "t_history", 2)).toEqual(["r 1|a", "r 2|b"]);
    await rig.source(`begin; update t set v = 'c' where id = 1; update t set v = 'd' where id = 1; insert into t values (3, 'e');
      delete from t where id = 2; update t set id = 4 where id = 3; delete from t where id = 4; commit`);
    expect((await untilTold(rig, "id, v", "t_history", 9)).slice(2)).toEqual([
      ...["u 1|c", "u 1|d", "c 3|e", "d 2|b", "d 3|e", "u 4|e", "d 4|e"],
    ]);
    await rig.expectEqual();
    const [facts] = await rig.sink<{ transactions: number; isInOrder: boolean; isNow: boolean }>(
      `select count(distinct _sm_lsn)::int as transactions, bool_and(_sm_ordinal >= 0) as "isInOrder",
        bool_and(_sm_committed_at between now() - interval '5 minutes' and now() + interval '1 second') as "isNow"
       from t_history where _sm_op <> 'r'`,
    );
    expect(facts).toEqual({ transactions: 1, isInOrder: true, isNow: true });
    await waitFor("the status", async () => rig.table("t")?.history === true);
    await rig.stop();
  });
}

test("what the source did not send of a row comes from the batch or from the table", async () => {
  await using rig = await streaming(
    `create table t (id int primary key, v int, big text, other text);
     alter table t alter column big set storage external, alter column other set storage external;
     insert into t select g, 0, ${long("a")}, ${long("b")} from generate_series(1, 4) g`,
  );
  await untilTold(rig, "id", "t_history", 4);
  await rig.source("alter table t replica identity default");
  await rig.source("update t set v = 1 where id = 1");
  await rig.source("delete from t where id = 2");
  await rig.source(
    "begin; update t set v = 1 where id = 3; update t set other = 'short' where id = 3; update t set id = 5 where id = 3; commit",
  );
  await rig.source("update t set id = 6 where id = 4");
  await rig.source(
    "begin; update t set id = 7 where id = 6; update t set v = 2 where id = 7; delete from t where id = 7; commit",
  );
  const rows = await untilTold(rig, "id, v, md5(big), md5(other)", "t_history", 16);
  const [sums] = await rig.sink<{ a: string; b: string; s: string }>(
    `select md5(${long("a")}) as a, md5(${long("b")}) as b, md5('short') as s`,
  );
  const { a, b, s } = sums!;
  expect(rows.slice(4)).toEqual([
    ...[`u 1|1|${a}|${b}`, `d 2|0|${a}|${b}`],
    ...[`u 3|1|${a}|${b}`, `u 3|1|${a}|${s}`, `d 3|1|${a}|${s}`, `u 5|1|${a}|${s}`],
    ...[`d 4|0|${a}|${b}`, `u 6|0|${a}|${b}`],
    ...[`d 6|0|${a}|${b}`, `u 7|0|${a}|${b}`, `u 7|2|${a}|${b}`, `d 7|2|${a}|${b}`],
  ]);
  await rig.expectEqual();
});

test("a large value that many updates leave alone is not held once for each of them", async () => {
  await using rig = await streaming(
    `create table t (id int primary key, v int, big text);
     alter table t alter column big set storage external;
     alter table t replica identity default;
     insert into t select 1, 0, repeat('x', 100000)`,
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.source(`begin; update t set big = repeat('y', 100000);
    do $$ begin for i in 1..999 loop update t set v = i; end loop; end $$; commit`);
  await untilTold(rig, "id", "t_history", 1001);
  const [facts] = await rig.sink<{ versions: number; values: number; writes: number }>(
    `select count(distinct v)::int as versions, count(*) filter (where big = repeat('y', 100000))::int as values,
      count(distinct cmin::text)::int as writes from t_history where _sm_op = 'u'`,
  );
  expect(facts).toMatchObject({ versions: 1000, values: 1000 });
  // 100 MB of rows: written in parts, most of them as a part that the table fills.
  expect(facts!.writes).toBeGreaterThan(1);
  await rig.expectEqual();
});

test("a history that is written in parts leaves the order between tables alone: foreign keys are in force", async () => {
  const made = `create table parent (id int primary key, v int, big text); create table child (id int primary key, parent int references parent on delete cascade);
    alter table parent alter column big set storage external;`;
  await server.query("create role plain login");
  await using rig = await PipelineRig.create(server, "historyorder", {
    source: { catalog: withHistory("parent") },
  });
  await rig.sink(`grant create, temporary on database "${rig.sinkDatabase}" to plain;
    grant create, usage on schema public to plain; set role plain; ${made.replace("on delete cascade", "")}`);
  rig.sinkUser = "plain";
  await rig.source(`${made} alter table parent replica identity default;
    insert into parent select g, 0, repeat('x', 200000) from generate_series(1, 72) g; insert into child select g, g from generate_series(1, 72) g`);
  rig.start();
  await rig.untilRealtime();
  await untilTold(rig, "id", "parent_history", 72);
  await rig.source("begin; update parent set big = repeat('y', 200000); delete from parent; commit");
  await untilTold(rig, "id", "parent_history", 216);
  await rig.expectEqual();
  const [facts] = await rig.sink<{ right: number }>(
    "select count(*) filter (where big = repeat('y', 200000))::int as right from parent_history",
  );
  expect(facts).toEqual({ right: 144 });
  await rig.stop();
});

test("keys that are swapped, and unique values, are told row by row", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text unique); insert into t values (1, 'a'), (2, 'b')",
  );
  await untilTold(rig, "id, v", "t_history", 2);
  await rig.source(
    "begin; update t set id = 0 where id = 1; update t set id = 1 where id = 2; update t set id = 2 where id = 0; commit",
  );
  expect((await untilTold(rig, "id, v", "t_history", 8)).slice(2)).toEqual([
    ...["d 1|a", "u 0|a", "d 2|b", "u 1|b", "d 0|a", "u 2|a"],
  ]);
  await rig.source(
    "begin; update t set v = 'x' where id = 1; update t set v = 'b' where id = 2; update t set v = 'a' where id = 1; commit",
  );
  expect((await untilTold(rig, "id, v", "t_history", 11)).slice(8)).toEqual(["u 1|x", "u 2|b", "u 1|a"]);
  await rig.expectEqual();
});

test("a TRUNCATE is one row", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); create table o (id int primary key); insert into t values (1, 'a'); insert into o values (1)",
    ["t", "o"],
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.source(
    "begin; insert into t values (2, 'b'); truncate t, o; insert into t values (1, 'c'); commit",
  );
  expect((await untilTold(rig, "id, v", "t_history", 4)).slice(1)).toEqual(["c 2|b", "t ~|~", "c 1|c"]);
  expect(await untilTold(rig, "id", "o_history", 2)).toEqual(["r 1", "t ~"]);
  expect(await rig.sink("select id, v, is_current from t_versions order by valid_from, id, v")).toEqual([
    { id: 1, v: "a", is_current: false },
    { id: 1, v: "c", is_current: true },
    { id: 2, v: "b", is_current: false },
  ]);
  await rig.expectEqual();
});

test("a table without a key: changes are appended, with the whole old row", async () => {
  await using rig = await streaming(
    "create table t (v text); alter table t replica identity full; insert into t values ('a'), ('a')",
  );
  await untilTold(rig, "v", "t_history", 2);
  await rig.source(
    "insert into t values ('b'); update t set v = 'c' where v = 'b'; delete from t where v = 'c'",
  );
  expect((await untilTold(rig, "v", "t_history", 6)).slice(2)).toEqual(["c b", "d b", "u c", "d c"]);
  expect(await rig.sink("select to_regclass('t_versions') as view")).toEqual([{ view: null }]);
  expect(await rig.snapshot("t", true)).toBeNull();
  expect((await untilTold(rig, "v", "t_history", 9)).slice(6)).toEqual(["t ~", "r a", "r a"]);
});

test("a later copy appends only what differs", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t select g, 'v' || g from generate_series(1, 1000) g",
  );
  await untilTold(rig, "id", "t_history", 1000);
  await rig.sink(
    "delete from t where id = 3; update t set v = 'damaged' where id = 4; insert into t values (-1, 'nobody')",
  );
  expect(await rig.snapshot("t", true)).toBeNull();
  await rig.expectEqual();
  await rig.source("update t set v = 'later' where id = 1");
  const rows = (await untilTold(rig, "id, v", "t_history", 1001)).slice(1000);
  // What somebody did at the sink, and what mended it, were no changes of the source.
  expect(rows).toEqual(["u 1|later"]);
});

test("a death amid a large transaction leaves each of its changes once", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v int); insert into t select g, 0 from generate_series(1, 50) g",
    ["t"],
    { isSupervised: true, maxBufferedRows: 20 },
  );
  await untilTold(rig, "id", "t_history", 50);
  for (let round = 1; round <= 4; round++) {
    rig.dieAt(3 + round * 2);
    await rig.source(
      `update t set v = ${round}; delete from t where id % 10 = ${round}; insert into t select g * 10 + ${round}, ${round} from generate_series(0, 4) g`,
    );
    await rig.ended();
    rig.start();
    await rig.expectEqual();
  }
  await rig.source("insert into t values (9999, 0)");
  const rows = await untilTold(rig, "id, v", "t_history", 50 + 4 * 60 + 1);
  expect(rows.length).toBe(50 + 4 * 60 + 1);
  const [last] = await rig.sink(
    `select count(*)::int as differing from (select distinct on (id) id, v, _sm_op from t_history order by id, _sm_lsn desc, _sm_ordinal desc) h
     full join t on t.id = h.id and h._sm_op <> 'd' where t.id is null and h._sm_op <> 'd' or h.id is null or t.v <> h.v`,
  );
  expect(last).toEqual({ differing: 0 });
  expect((await told(rig, "id, v", "t_history")).filter((row) => row.startsWith("c")).length).toBe(21);
});

test("a connector that begins anew goes on in the history that is there, with what differs", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t values (1, 'a'), (2, 'b'), (3, 'c')",
  );
  await untilTold(rig, "id", "t_history", 3);
  await rig.stop();
  await rig.source("update t set v = 'd' where id = 1; delete from t where id = 2");
  rig.initialized = false;
  rig.start();
  expect((await untilTold(rig, "id, v", "t_history", 5)).slice(3).toSorted()).toEqual(["d 2|b", "r 1|d"]);
  await rig.source("update t set v = 'e' where id = 3");
  expect((await untilTold(rig, "id, v", "t_history", 6)).slice(5)).toEqual(["u 3|e"]);
  await rig.expectEqual();
});
