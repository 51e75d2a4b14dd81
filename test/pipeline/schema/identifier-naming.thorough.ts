// Names at a Postgres sink that are made in Fivetran's way.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { IdentifierNaming } from "../../../src/connector/connector.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const fivetran = (
  change: Partial<NonNullable<IdentifierNaming["FivetranNaming"]>> = {},
): IdentifierNaming => ({
  FivetranNaming: { schema_prefix: null, column_conflict: "Fail", table_conflict: "Merge", ...change },
});
const rig = (naming: IdentifierNaming, isSupervised = false) =>
  PipelineRig.create(server, `n${++count}`, { naming, isSupervised });

/** Waits until both queries give the same rows. */
async function expectSame(pair: PipelineRig, source: string, sink: string): Promise<void> {
  const rows = async (query: Promise<object[]>) => JSON.stringify(await query.catch(() => []));
  const same = async () => (await rows(pair.source(source))) === (await rows(pair.sink(sink)));
  await waitFor("the same rows", same).catch(() => {});
  expect(await pair.sink<object>(sink)).toEqual(await pair.source<object>(source));
}

test("schemas, tables and columns, copied, streamed, and renamed at the source", async () => {
  await using pair = await rig(fivetran({ schema_prefix: "Shop" }), true);
  await pair.source(
    `create schema "Sales"; create table "Sales"."OrderItem" ("orderID" int primary key, "Größe" text, plain int);
     insert into "Sales"."OrderItem" values (1, 'a', 1), (2, 'b', 2)`,
  );
  pair.start();
  await pair.untilRealtime();
  const all = 'select "orderID" as id, "Größe" as size, plain from "Sales"."OrderItem" order by 1';
  const named = "select order_id as id, grosse as size, plain from shop_sales.order_item order by 1";
  await pair.source(`insert into "Sales"."OrderItem" values (3, 'c', 3); delete from "Sales"."OrderItem" where plain = 1;
    update "Sales"."OrderItem" set "orderID" = 20, "Größe" = null where plain = 2`);
  await expectSame(pair, all, named);
  await pair.source(`alter table "Sales"."OrderItem" rename column plain to "someText"; alter table "Sales"."OrderItem" alter "someText" type text;
    alter table "Sales"."OrderItem" rename "orderID" to order_id; insert into "Sales"."OrderItem" values (4, 'd', 'four')`);
  await expectSame(
    pair,
    'select order_id as id, "someText" as t from "Sales"."OrderItem" order by 1',
    "select order_id as id, some_text as t from shop_sales.order_item order by 1",
  );
  await pair.source(
    'alter table "Sales"."OrderItem" rename to order_item; insert into "Sales".order_item values (5)',
  );
  await pair.source(
    'alter table "Sales".order_item rename to "LineItem"; insert into "Sales"."LineItem" values (6)',
  );
  await expectSame(
    pair,
    'select order_id as id from "Sales"."LineItem" order by 1',
    "select order_id as id from shop_sales.line_item order by 1",
  );
  expect(await pair.sink<object>("select from pg_class where relname = 'order_item'")).toEqual([]);
  expect(await pair.snapshot("LineItem", true)).not.toBeNull();
  await pair.stop();
});

test("of columns whose names collide the first is kept, or the run stops", async () => {
  const made = `create table t (id int primary key, "userName" text, user_name int, "UserName" text, last bytea);
    insert into t values (1, 'a\tb', 1, null, '\\x00'), (2, null, 2, 'x', null)`;
  await using failing = await rig(fivetran());
  await failing.source(made);
  failing.start();
  expect(await failing.ended()).toMatchObject({ code: "column_conflict" });
  await using pair = await rig(fivetran({ column_conflict: "KeepFirst" }));
  await pair.source(made);
  pair.start();
  await pair.untilRealtime();
  const kept = 'select id, "userName" as n, last from t order by 1';
  const atSink = "select id, user_name as n, last from t order by 1";
  await expectSame(pair, kept, atSink);
  await pair.source(`insert into t values (3, 'new', 3, 'y', '\\xff'), (4, 'four', 4, 'z', null); update t set "userName" = 'v', user_name = 9 where id = 1;
    update t set id = 22 where id = 2; delete from t where id = 4; alter table t replica identity full; update t set last = null where id = 3`);
  await expectSame(pair, kept, atSink);
  await pair.source("truncate t; insert into t values (7, 'after')");
  await expectSame(pair, kept, atSink);
  expect(await pair.snapshot("t", true)).toBeNull();
  await expectSame(pair, kept, atSink);
  await pair.stop();
});

test("the column that is kept takes null, whatever the one that is left out takes", async () => {
  await using pair = await rig(fivetran({ column_conflict: "KeepFirst" }));
  await pair.source(`create table t (id int primary key, "userName" text, user_name text not null, note text not null);
    insert into t values (1, null, 'a', 'x')`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (2, null, 'b', 'y')");
  const atSink = "select id, user_name as n, note from t order by 1";
  await expectSame(pair, 'select id, "userName" as n, note from t order by 1', atSink);
  expect(pair.setAside).toEqual([]);
  const notNull =
    "select attname from pg_attribute where attrelid = 't'::regclass and attnotnull and attnum > 0";
  expect((await pair.sink(notNull)).map(({ attname }) => attname)).toEqual(["id", "note"]);
  await pair.stop();
});

test("a column that is kept from here on brings what it has held all along", async () => {
  await using pair = await rig(fivetran({ column_conflict: "KeepFirst" }), true);
  await pair.source(`create table t (id int primary key, x text, "userName" text, user_name text, "User Name" int);
    insert into t values (1, 'x1', 'a', 'b', 3), (2, 'x2', 'c', 'd', 4)`);
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    `update t set user_name = 'z' where id = 1; alter table t drop "userName"; insert into t values (3, 'x3', 'e', 7)`,
  );
  await expectSame(pair, "select id, user_name from t order by 1", "select id, user_name from t order by 1");
  await pair.source(`alter table t rename user_name to other; insert into t values (4, 'x4', 'f', 8)`);
  await expectSame(
    pair,
    'select id, other, "User Name" as n from t order by 1',
    "select id, other, user_name as n from t order by 1",
  );
  // Another name that comes before it, and is there again when that goes.
  await pair.source(`alter table t rename x to "user name"; update t set other = 'g' where id = 1`);
  await expectSame(
    pair,
    'select id, other, "user name" as n from t order by 1',
    "select id, other, user_name as n from t order by 1",
  );
  await pair.source(`alter table t drop "user name"; insert into t values (5, 'h', 9)`);
  await expectSame(
    pair,
    'select id, other, "User Name" as n from t order by 1',
    "select id, other, user_name as n from t order by 1",
  );
  await pair.stop();
});

test("tables whose names collide are merged, or the run stops", async () => {
  const made = `create table "Orders" (id int primary key, a text); create table orders (id int primary key, b text);
    insert into "Orders" values (1, 'A1'), (2, 'A2'); insert into orders values (11, 'B11'), (12, 'B12')`;
  await using failing = await rig(fivetran({ table_conflict: "Fail" }));
  await failing.source(made);
  failing.start();
  expect(String(await failing.ended())).toContain('public."Orders"');
  await using pair = await rig(fivetran());
  await pair.source(made);
  pair.start();
  await pair.untilRealtime();
  const both = 'select id, a, null as b from "Orders" union all select id, null, b from orders order by 1';
  const merged = "select id, a, b from orders order by 1";
  await expectSame(pair, both, merged);
  await pair.source(`insert into "Orders" values (3, 'A3'); insert into orders values (13, 'B13'); update orders set b = 'new' where id = 11;
    delete from "Orders" where id = 1; delete from orders where id = 12`);
  await pair.source(
    "begin; insert into orders values (50, 'B50'); delete from \"Orders\" where id = 2; insert into orders values (2, 'moved'); commit",
  );
  await expectSame(pair, both, merged);
  expect(await pair.snapshot("orders", true)).toBeNull();
  expect(await pair.snapshot("Orders", false)).toBeNull();
  await expectSame(pair, both, merged);
  await pair.source("alter table orders add c int default 5; insert into orders values (14, 'B14', 6)");
  expect(String(await pair.ended())).toContain("it is copied again");
  pair.start();
  await expectSame(
    pair,
    "select id, c from orders order by 1",
    "select id, c from orders where id in (2, 50) or id > 10 order by 1",
  );
  await pair.source('truncate "Orders"; insert into orders values (15, null, 7)');
  await waitFor("the insert", async () => (await pair.sink("select from orders where id = 15")).length === 1);
  expect(await pair.sink<object>("select id from orders where id = 3")).toEqual([{ id: 3 }]);
  await pair.source("alter table orders rename c to d; insert into orders values (16)");
  expect(String(await pair.ended())).toContain('rename column "c" to "d"');
  await pair.sink("alter table orders rename c to d");
  pair.start();
  await waitFor("the insert", async () => (await pair.sink("select from orders where id = 16")).length === 1);
  // A column that is made again is another one; the table at the sink is not only this one's.
  await pair.source(
    "alter table orders drop column d; alter table orders add d int; insert into orders (id, d) values (17, 7)",
  );
  expect(String(await pair.ended())).toContain("it is copied again");
  pair.start();
  const own = "select id, b, d from orders where id > 10 order by id";
  await expectSame(pair, own, own);
  await pair.stop();
  await pair.source(
    "alter table orders drop column d; alter table orders add d text; insert into orders (id, d) values (18, '08')",
  );
  pair.start();
  expect(String(await pair.ended())).toContain("it is copied again");
  pair.start();
  expect(String(await pair.ended())).toContain('alter column "d" type text');
  await pair.sink("alter table orders alter d type text");
  pair.start();
  await expectSame(pair, own, own);
  await pair.stop();
});

test("a column that is added to merged tables with a default has it in the rows of the table that has got it", async () => {
  await using pair = await rig(fivetran(), true);
  await pair.source(`create table "Orders" (id int primary key); create table orders (id int primary key);
    insert into "Orders" values (1); insert into orders values (11)`);
  pair.start();
  await pair.untilRealtime();
  await pair.source('alter table "Orders" add y int default 5; insert into "Orders" values (2, 6)');
  const before = 'select id, y from "Orders" union all select id, null from orders order by 1';
  const merged = "select id, y from orders order by 1";
  await expectSame(pair, before, merged);
  await pair.source("insert into orders values (12)");
  await expectSame(pair, before, merged);
  await pair.source(
    'alter table orders add y int default 7, add n int; insert into orders values (13, 8); update "Orders" set y = 9 where id = 2',
  );
  await expectSame(pair, 'select id, y from "Orders" union all select id, y from orders order by 1', merged);
  await pair.stop();
});

test("changes of a merged table from before it got a column with a default arrive", async () => {
  await using pair = await rig(fivetran(), true);
  await pair.source(`create table "Orders" (id int primary key); create table orders (id int primary key, b text);
    insert into "Orders" values (1), (2), (3); insert into orders select n, 'B' || n from generate_series(11, 19) n`);
  pair.start();
  await pair.untilRealtime();
  // Between changes of another table with the same target, its rows are written. 13 and 17 are gone at that time; 16 comes back as another table's.
  await pair.source(`begin; delete from orders where id = 12; update orders set b = 'new' where id = 11; insert into orders values (20, 'B20');
    delete from orders where id in (13, 16); update orders set id = 24 where id = 14; update orders set id = 27 where id = 17;
    insert into orders values (21); insert into "Orders" values (16); insert into orders values (13, 'again');
    update orders set id = 17 where id = 27; delete from orders where id = 21; delete from "Orders" where id = 2;
    alter table orders add c int default 5; delete from orders where id = 15; insert into orders values (22, 'B22', 6); commit`);
  await expectSame(
    pair,
    'select id, null as b, null as c from "Orders" union all select id, b, c from orders order by 1',
    "select id, b, c from orders order by 1",
  );
  await pair.stop();
  await pair.source(
    "delete from orders where id = 18; insert into orders values (23, 'B23', 7), (25, 'B25', 7)",
  );
  await pair.source("update orders set b = 'newer', c = 8 where id = 11; delete from orders where id = 25");
  await pair.source("alter table orders add d int default 9; delete from orders where id = 19");
  pair.start();
  await expectSame(
    pair,
    'select id, null as b, null as c, null as d from "Orders" union all select id, b, c, d from orders order by 1',
    "select id, b, c, d from orders order by 1",
  );
  expect(pair.warnings.join()).not.toContain("Rows of public.orders that were deleted");
  await pair.stop();
});

test("without copies the default of a column that is added to a merged table is warned of", async () => {
  await using pair = await PipelineRig.create(server, `n${++count}`, {
    naming: fivetran(),
    skipSnapshots: true,
  });
  await pair.source('create table "Orders" (id int primary key); create table orders (id int primary key)');
  pair.start();
  await pair.untilRealtime();
  await pair.source('insert into "Orders" values (1); insert into orders values (11)');
  await pair.source('alter table "Orders" add y int default 5; insert into "Orders" values (2)');
  const merged = "select id, y from orders order by 1";
  await waitFor("the rows", async () => (await pair.sink(merged).catch(() => [])).length === 3);
  expect(await pair.sink<object>(merged)).toEqual([
    { id: 1, y: null },
    { id: 2, y: 5 },
    { id: 11, y: null },
  ]);
  await waitFor("the warning", () =>
    pair.warnings.join().includes('public."Orders" were added with a default'),
  );
  await pair.stop();
});

test("a merged table that was altered again before its copy is not copied in circles", async () => {
  await using pair = await rig(fivetran());
  await pair.source(`create table "Orders" (id int primary key); create table orders (id int primary key, d int);
    insert into "Orders" values (1); insert into orders values (11, 1), (12, 2), (13, 3)`);
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  await pair.source(`delete from orders where id = 12; alter table orders drop column d; alter table orders add d int;
    insert into orders values (17, 7); delete from orders where id = 13`);
  await pair.source(
    "alter table orders drop column d; alter table orders add d text; insert into orders values (18, '08')",
  );
  pair.start();
  expect(String(await pair.ended())).toContain("it is copied again");
  pair.start();
  expect(String(await pair.ended())).toContain('alter column "d" type text');
  await pair.sink("alter table orders alter d type text");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into orders values (19, '09'); insert into \"Orders\" values (3)");
  await waitFor("the insert", async () => (await pair.sink("select from orders where id = 3")).length === 1);
  // Of the deletes under the older shapes only a warning tells.
  const own = "select id, d from orders where id > 13 or id = 11 order by id";
  await expectSame(pair, own, own);
  expect(await pair.sink<object>("select from orders where id in (12, 13)")).toHaveLength(2);
  expect(pair.warnings.join()).toContain("Rows of public.orders that were deleted");
  await pair.stop();
});

test("a table is renamed into a merged one while the stream is behind: changes under its former name stop nothing", async () => {
  await using pair = await rig(fivetran(), true);
  await pair.source(`create table o (id int primary key, a int); insert into o values (1, 1), (2, 2);
    create table "T" (id int primary key, a int); insert into "T" values (11, 1)`);
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  await pair.source("update o set a = 3 where id = 1");
  await pair.source("alter table o rename to t; insert into t values (3, 3)");
  pair.start();
  const both = 'select id, a from t union all select id, a from "T" order by 1';
  await expectSame(pair, both, "select id, a from t order by 1");
  await pair.source('insert into t values (4, 4); insert into "T" values (12, 2)');
  await expectSame(pair, both, "select id, a from t order by 1");
  await pair.stop();
});
