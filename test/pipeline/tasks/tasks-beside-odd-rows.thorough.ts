// Snapshot tasks beside the stream, and rows that are easily missed: none may stay that the source does not have, and no task may go on
// for ever because others change rows.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

test("extra rows go whose keys come and go meanwhile, or are null", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "oddrows",
    {
      source: `create table t (id int primary key, v text); insert into t select g, 'v' || g from generate_series(1, 500) g;
        create table n (id int primary key, v text); insert into n values (1, 'one')`,
      sink: "create table n (id int, v text); create unique index n_id on n (id)",
    },
    { parallelCopies: 5 },
  );
  await rig.expectSame("select id, v from t order by id");
  await rig.expectSame("select id, v from n order by id");

  await rig.sink("insert into t values (9000, 'extra'); insert into n values (null, 'extra'), (77, 'extra')");
  expect(await rig.snapshot("n", true)).toBeNull();
  await rig.expectSame("select id, v from n order by id");
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  const read = rig.copies.length;
  const task = rig.snapshot("t", true);
  await waitFor("the table to be read", () => rig.copies.length > read);
  await rig.source(
    "begin; insert into t values (9000, 'for a moment'); delete from t where id = 9000; commit; update t set v = 'later' where id = 3",
  );
  await rig.expectSame("select id, v from t where id < 9000 order by id");
  resolve();
  expect(await task).toBeNull();
  await rig.expectSame("select id, v from t order by id");
  await rig.stop();
});

test("a task ends though rows go on moving to other keys", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "movingon",
    {
      source: `create table t (k int primary key, v text); alter table t alter v set storage external;
        insert into t select g, repeat(md5(g::text), 80) from generate_series(1, 50) g`,
    },
    { parallelCopies: 5 },
  );
  await rig.expectEqual();
  let isOver = false;
  const move = async () => {
    const session = await rig.sourceSession();
    for (let i = 1; !isOver; i++) {
      await session.query(`update t set k = k + 50 where k = ${i}`);
      await sleep(20);
    }
    await session.end();
  };
  const moving = move();
  const ended = await Promise.race([rig.snapshot("t", true), Bun.sleep(40_000).then(() => "not ended")]);
  isOver = true;
  await moving;
  expect(ended).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

test("rows that were rewritten before the task are mended, though the stream still brings what they were before", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "rewritten",
    {
      source: `create table t (id int primary key, v text); insert into t select g, 'v' || g from generate_series(1, 100) g;
        create table other (id int primary key)`,
    },
    { parallelCopies: 5 },
  );
  await rig.expectEqual();
  let task: Promise<unknown>;
  {
    await using holder = await server.connect(rig.sinkDatabase);
    await holder.query("begin; lock table other in exclusive mode");
    await rig.source("insert into other values (1)");
    const isHeld = "select from pg_locks where relation = 'other'::regclass and not granted";
    await waitFor("the stream to be held", async () => (await rig.sink(isHeld)).length > 0);
    await rig.source("update t set v = 'w' || id where id <= 50");
    await rig.source("alter table t alter v type text using 'u' || v");
    task = rig.snapshot("t", true);
    await holder.query("commit");
  }
  expect(await task).toBeNull();
  await rig.expectSame("select id, v from t order by id");
  await rig.stop();
});

test.each([
  ["citext", "public.citext", "('k' || g)::public.citext", "upper(id::text)"],
  ["numeric", "numeric", "g", "id + 0.00"],
])(
  "a row that the stream still moves, to a key of type %s that is equal to its own, stays where the task has copied it to",
  async (name, type, id, moved) => {
    const citext = "create extension citext with schema public";
    await using rig = await PipelineRig.streaming(server, `equal_${name}`, {
      source: `${citext}; create table t (id ${type} primary key, n int, far text); alter table t alter far set storage external;
        insert into t select ${id}, 0, repeat(md5(g::text), 100) from generate_series(1, 3) g; create table last (id int primary key)`,
      sink: citext,
    });
    await rig.expectEqual();
    // The stream waits for the copy of such a table.
    await rig.sink("create unique index on t (id, n)");
    rig.beforePoint = async () => {
      rig.beforePoint = async () => {};
      await rig.source(`update t set id = ${moved}, n = 1`);
    };
    expect(await rig.snapshot("t", false)).toBeNull();
    await rig.source("insert into last values (1)");
    await waitFor("the last", async () => (await rig.sink("select from last")).length === 1);
    expect(await rig.difference()).toEqual({});
    await rig.stop();
  },
);
