// Tables whose targets hold something of before: of a table that was dropped, or of a run before ReInitialize. They get the source's types.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
async function streaming(sql: string): Promise<PipelineRig> {
  return await PipelineRig.streaming(server, `former_${++count}`, { source: sql }, { isSupervised: true });
}

const rowAtSink = async (pair: PipelineRig) =>
  (await pair.sink<{ row: string }>("select u::text as row from u where id = 9"))[0]?.row;

test("a table that got the name of one that was dropped is copied with its own types", async () => {
  await using pair = await streaming(
    "create table u (id int primary key, d date, n numeric(10,2)); create table t (id int primary key, d timestamp, n numeric(12,4))",
  );
  await pair.stop();
  await pair.source("drop table u; alter table t rename to u");
  await pair.source("insert into u values (9, '2024-01-01 10:11:12', 1.2345)");
  pair.start();
  await pair.expectEqual();
  expect(await rowAtSink(pair)).toBe('(9,"2024-01-01 10:11:12",1.2345)');
  await pair.source("insert into u values (10, '2024-01-01 10:11:13', 1.2346)");
  await pair.expectEqual();
  await pair.stop();
});

test("after ReInitialize, types that the source has altered meanwhile are followed", async () => {
  await using pair = await streaming(
    "create table u (id int primary key, d date, n numeric(10,2), mine text)",
  );
  await pair.sink("alter table u alter mine type varchar(100)");
  await pair.stop();
  await pair.source("alter table u alter d type timestamp, alter n type numeric(12,4)");
  await pair.source("insert into u values (9, '2024-01-01 10:11:12', 1.2345, 'x')");
  pair.initialized = false;
  pair.start();
  await pair.expectEqual();
  expect(await rowAtSink(pair)).toBe('(9,"2024-01-01 10:11:12",1.2345,x)');
  const [type] = await pair.sink<{ type: string }>(
    "select format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 'u'::regclass and attname = 'mine'",
  );
  expect(type?.type).toBe("character varying(100)");
  await pair.source("insert into u values (10, '2024-01-01 10:11:13', 1.2346, 'y')");
  await pair.expectEqual();
  await pair.stop();
});

test("a table whose dropped column somebody uses at the sink waits alone, however long", async () => {
  await using pair = await streaming("create table v (id int primary key, a int); create table u (id int)");
  await pair.sink("create view mine as select a from v");
  await pair.source("alter table v drop column a; insert into v values (1)");
  await waitFor("the command", async () => {
    const [told] = await pair.sink<{ sql: string }>("select commands[1] as sql from millrace.set_aside");
    return told?.sql === "drop view public.mine";
  });
  // Whether it can be copied now is looked at every few seconds.
  for (let id = 1; id <= 8; id++) {
    await pair.source(`insert into u values (${id})`);
    await waitFor("the other table", async () => (await pair.sink("select from u")).length === id);
    await Bun.sleep(1_000);
  }
  await pair.sink("drop view mine");
  await pair.expectEqual();
  await pair.stop();
});

test("a table stops no other where somebody's index or constraint at the sink does not fit a column's other type", async () => {
  await using pair = await streaming(
    `create table p (id int primary key, status text, doc jsonb); insert into p values (1, 'open', '{"a": 1}');
     create table c (id text primary key); create table r (id int primary key); create table u (id int); create type state as enum ('open', 'done')`,
  );
  await pair.sink(`create index "open" on p (id) where status = 'open'; create index doc on p using gin (doc);
    alter table p add constraint known check (status in ('open', 'done'));
    create table child (parent int references r (id))`);
  await pair.source(
    "alter table p alter status type state using status::state; insert into p values (2, 'done')",
  );
  await pair.source("alter table r alter id type text; insert into r values ('1')");
  const told = async () =>
    (
      await pair.sink<{ sql: string }>("select unnest(commands) as sql from millrace.set_aside order by 1")
    ).map(({ sql }) => sql);
  const commands = [
    "alter table public.child drop constraint child_parent_fkey",
    "alter table public.p drop constraint known",
    "drop index public.open",
  ];
  await waitFor("the commands", async () => (await told()).length >= commands.length);
  expect(await told()).toEqual(commands);
  // Whether they can be copied now is looked at every few seconds.
  for (let id = 1; id <= 8; id++) {
    await pair.source(`insert into u values (${id})`);
    await waitFor("the other table", async () => (await pair.sink("select from u")).length === id);
    await Bun.sleep(1_000);
  }
  for (const command of commands) await pair.sink(command);
  await pair.expectEqual();
  await pair.source("alter table p alter doc type text; insert into p values (3, 'open', 'x')");
  await waitFor("the command", async () => (await told())[0] === "drop index public.doc");
  await pair.sink("drop index doc");
  await pair.expectEqual();
  await pair.stop();
});

test.each([
  ["is added", "alter table u add column note text default 'd'"],
  ["is renamed", "alter table u rename remark to note"],
])(
  "a column %s to a name that somebody's own column has at the sink: no value of theirs stays",
  async (_, sql) => {
    await using pair = await streaming(
      "create table u (id int primary key, remark text); insert into u values (1, 'one'), (9, 'nine')",
    );
    await pair.sink("alter table u add note text; update u set note = 'mine'");
    await pair.source(`${sql}; insert into u values (2, 'two')`);
    const rows = (side: "source" | "sink") => pair[side]("select id, note from u order by id");
    await waitFor("the same notes", async () => Bun.deepEquals(await rows("sink"), await rows("source")));
    await pair.source("update u set note = 'new' where id = 1");
    await waitFor("the same notes", async () => Bun.deepEquals(await rows("sink"), await rows("source")));
    await pair.stop();
  },
);

test("a key's column that somebody has renamed at the sink comes back, with its key", async () => {
  await using pair = await streaming(
    "create table u (id int primary key, v text); insert into u values (1, 'one')",
  );
  await pair.sink("alter table u rename column id to mine");
  await pair.source("insert into u values (2, 'two')");
  const rows = (side: "source" | "sink") => pair[side]("select id, v from u order by id");
  await waitFor("the same rows", async () =>
    Bun.deepEquals(await rows("sink").catch(() => null), await rows("source")),
  );
  const [key] = await pair.sink<{ key: string }>(
    "select pg_get_constraintdef(oid) as key from pg_constraint where conrelid = 'u'::regclass and contype = 'p'",
  );
  expect(key?.key).toBe("PRIMARY KEY (id)");
  await pair.source("update u set v = 'new' where id = 1");
  await waitFor("the same rows", async () => Bun.deepEquals(await rows("sink"), await rows("source")));
  await pair.stop();
});

test("a column that is added to each of the tables which share a target copies none of them again", async () => {
  const naming = {
    FivetranNaming: { schema_prefix: "all", column_conflict: "Fail", table_conflict: "Merge" },
  } as const;
  await using pair = await PipelineRig.streaming(
    server,
    `former_${++count}`,
    {
      source:
        'create table "Item" (id int primary key, v text); create table item (id int primary key, v text)',
    },
    { isSupervised: true, naming },
  );
  const rowsAtSink = async () => (await pair.sink("select from all_public.item")).length;
  await pair.source(`insert into "Item" values (1, 'a'); insert into item values (2, 'b')`);
  await waitFor("the rows", async () => (await rowsAtSink()) === 2);
  const copies = pair.copies.length;
  await pair.source(`alter table "Item" add c int; alter table item add c int;
    insert into "Item" values (3, 'a', 3); insert into item values (4, 'b', 4)`);
  await waitFor("the rows", async () => (await rowsAtSink()) === 4);
  expect(await pair.sink("select id, c from all_public.item where c is not null order by id")).toEqual([
    { id: 3, c: 3 },
    { id: 4, c: 4 },
  ]);
  expect(pair.copies.length).toBe(copies);
  await pair.stop();
});
