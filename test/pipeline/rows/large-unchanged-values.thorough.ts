// Values that are stored out of line, and that a change leaves as they are: pgoutput does not send them, and they are never
// replaced by anything at the sink.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

const streaming = (source: string, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `toast${++count}`, { source }, options);

/** Three columns, stored apart, compressed, and both; `noise` does not get smaller by compression. */
const noise = (seed: string, n = 200) =>
  `(select string_agg(md5(${seed} || i::text), '') from generate_series(1, ${n}) i)`;
const columns = (table: string, key: string) => `
  create table ${table} (${key}, n int, ext text, packed text, doc jsonb);
  alter table ${table} alter ext set storage external`;
const row = (id: string) =>
  `select ${id}, 0, repeat('e', 4000), repeat('p', 60000) || ${noise("'p'")}, jsonb_build_object('k', ${noise("'j'")})`;

/** Table, key, what makes it its replica identity. */
const identities = [
  ["by_default", "id int primary key", ""],
  ["by_full", "id int primary key", "alter table by_full replica identity full"],
  [
    "by_index",
    "id int not null",
    "create unique index by_index_id on by_index (id); alter table by_index replica identity using index by_index_id",
  ],
  ["by_full_alone", "id int", "alter table by_full_alone replica identity full"],
] as const;
const tables = identities.map(
  ([t, key, identity]) =>
    `${columns(t, key)}; ${identity}; insert into ${t} ${row("g")} from generate_series(1, 9) g`,
);
const keyed = (table: string) =>
  `create table ${table} (k text not null, n int, b text); alter table ${table} alter k set storage external; alter table ${table} alter b set storage external;
   insert into ${table} select repeat(chr(96 + g), 2500), g, repeat('b', 5000) from generate_series(1, 8) g`;
const largeKeys = `${keyed("d")}; alter table d add primary key (k); ${keyed("f")}; alter table f add primary key (k); alter table f replica identity full;
  ${keyed("i")}; create unique index i_k on i (k); alter table i replica identity using index i_k`;

describe.each([["binary"], ["text"]] as const)("in %s form", (form) => {
  // One pipeline for all of them.
  let pair: PipelineRig;
  beforeAll(async () => {
    pair = await streaming(`${tables.join(";")}; ${largeKeys}`, {
      forms: form === "binary" ? ["binary", "text"] : ["text"],
    });
  });
  afterAll(async () => {
    await pair.stop();
    await pair[Symbol.asyncDispose]();
  });

  test.each(identities)("under replica identity %s", async (t) => {
    await pair.source(`
      update ${t} set n = 1;
      update ${t} set ext = 'short' where id = 1; update ${t} set packed = repeat('q', 60000) where id = 2;
      update ${t} set doc = '{}', n = 2 where id = 3; update ${t} set ext = null, doc = null where id = 4;
      begin; insert into ${t} ${row("20")}; update ${t} set n = 3 where id = 20; update ${t} set id = 21 where id = 20;
        update ${t} set ext = repeat('f', 4000) where id = 21; update ${t} set id = 22 where id = 21; update ${t} set n = 4 where id = 22; commit;
      begin; update ${t} set n = 5 where id = 5; update ${t} set id = 31 where id = 5; update ${t} set n = 6 where id = 31;
        update ${t} set doc = '{"a": 1}' where id = 31; update ${t} set id = 5 where id = 31; commit;
      begin; update ${t} set id = 600 where id = 6; update ${t} set id = 6 where id = 7; update ${t} set id = 7 where id = 600; commit;
      begin; update ${t} set packed = 'd', id = 32 where id = 8; delete from ${t} where id = 32; insert into ${t} ${row("8")}; update ${t} set n = 9 where id = 8; commit`);
    await pair.expectEqual();
  });

  test("in keys: of the table, under full, and of an index", async () => {
    for (const table of ["d", "f", "i"]) {
      await pair.source(`begin; update ${table} set n = 15 where n = 7; delete from ${table} where n = 15; commit;
        begin; update ${table} set n = n + 10; delete from ${table} where n = 13; update ${table} set b = 'x' where n = 14;
        update ${table} set k = 'short' where n = 15; delete from ${table} where n = 16; commit;
        begin; delete from ${table} where n = 14; insert into ${table} values (repeat('d', 2500), 1, 'b'); update ${table} set n = 2 where n = 1; commit`);
    }
    await pair.expectEqual();
  });
});

test("in transactions that come in pieces, while a copy is caught up with, and behind a death", async () => {
  await using pair = await streaming(
    `create table t (id int primary key, n int, big text); alter table t alter big set storage external;
     insert into t select g, 0, repeat(chr(97 + g % 26), 3000) from generate_series(1, 400) g`,
    { maxBufferedRows: 50, isSupervised: true },
  );
  await pair.source(`begin; insert into t select g, 0, repeat('n', 3000) from generate_series(5001, 5200) g;
    update t set n = n + 1; update t set id = id + 100000 where id % 9 = 0; update t set n = n + 1 where id % 2 = 0; delete from t where id % 7 = 0; commit`);
  await pair.expectEqual();
  let isDone = false;
  const writing = (async () => {
    for (let i = 0; !isDone; i++) {
      await pair.source(
        `update t set n = n + 1 where id % 40 = ${i % 40}; update t set id = -id where id = ${1 + 2 * i}; insert into t values (${200_000 + i}, 0, repeat('z', 3000))`,
      );
    }
  })();
  expect(await pair.snapshot("t", false)).toBeNull();
  await pair.crash();
  pair.start();
  await pair.untilRealtime();
  expect(await pair.snapshot("t", true)).toBeNull();
  isDone = true;
  await writing;
  await pair.expectEqual();
  await pair.stop();
});

test("keys that are exchanged while a copy is caught up with", async () => {
  await using pair = await streaming(
    `create table other (id int primary key); create table t (id int primary key, n int, big text); alter table t alter big set storage external;
     insert into t select g, g, repeat(chr(96 + g), 3000) from generate_series(1, 5) g`,
    { isSupervised: true },
  );
  await using holder = await server.connect(pair.sinkDatabase);
  await holder.query("begin; lock table other");
  await pair.source("insert into other values (1)");
  const isHeldUp = async () =>
    (await pair.sink("select from pg_locks where not granted and relation = 'other'::regclass")).length > 0;
  await waitFor("a batch to wait", isHeldUp);
  // The task comes before the batch that has the exchange: the copy has it already.
  await pair.source(
    "begin; update t set id = 600 where id = 1; update t set id = 1 where id = 2; update t set id = 2 where id = 600; commit; update t set id = -id where id = 3",
  );
  const task = pair.snapshot("t", false);
  await holder.query("commit");
  expect(await task).toBeNull();
  await pair.source("insert into t values (9, 9, null)");
  await pair.expectEqual();
  await pair.stop();
});

test("a row that somebody deleted at the sink comes back whole, by another copy", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, n int, big text); alter table t alter big set storage external; insert into t select g, 0, repeat('x', 3000) from generate_series(1, 5) g",
  );
  await pair.sink("delete from t where id = 2; insert into t values (77, 7, 'not the source''s')");
  await pair.source("update t set n = 1");
  expect(await pair.ended()).toMatchObject({ code: "sink_rows_missing", retry: "transient" });
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a row that moves takes the place of what was put there by hand, and one that somebody deleted comes back whole", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, n int, big text); alter table t alter big set storage external; insert into t select g, 0, repeat('x', 3000) from generate_series(1, 5) g",
  );
  await pair.sink("insert into t values (11, 7, 'not the source''s')");
  await pair.source("update t set id = 11 where id = 1");
  await pair.expectEqual();
  expect(pair.warnings.join()).toContain(
    "public.t had 1 rows with keys of rows that the source has inserted or moved",
  );

  await pair.sink("delete from t where id = 2; insert into t values (12, 7, 'not the source''s')");
  await pair.source("update t set id = 12 where id = 2");
  expect(await pair.ended()).toMatchObject({ code: "sink_rows_missing", retry: "transient" });
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("values of another unique index are handed round by rows whose large values are not sent", async () => {
  await using pair = await PipelineRig.create(server, `toast${++count}`);
  const t =
    "create table t (id int primary key, u int, big text); alter table t alter big set storage external";
  await pair.source(`${t}; insert into t select g, g, repeat('x', 3000) || g from generate_series(1, 10) g`);
  await pair.sink(`${t}; alter table t add unique (u), add mine text default 'mine'`);
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    `begin; update t set u = 100 where id = 1; update t set u = 1 where id = 2; update t set u = 2 where id = 1; update t set id = 30 where id = 3;
     update t set u = -u where id > 5; update t set u = 16 + u where id > 5 and id <= 10; commit`,
  );
  await pair.expectSame("select id, u, big from t order by id");
  expect(await pair.sink("select from t where mine = 'mine'")).toHaveLength(10);
  expect(pair.warnings).toEqual([]);
  await pair.stop();
});
