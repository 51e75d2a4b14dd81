// Tables at the limits of what Postgres makes: as many columns as there may be, rows as wide as a page, no column, nothing
// but a key, and names that need quotes.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { TupleForm } from "../../src/change/change-batch.ts";
import { testEveryDay, variants } from "../support/matrix.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const names = (n: number) => Array.from({ length: n }, (_, i) => `c${i + 2}`);
const forms: readonly TupleForm[] = ["binary", "text"];

async function streaming(sql: string, form: TupleForm): Promise<PipelineRig> {
  const rig = await PipelineRig.create(server, `w${++count}`, { forms: [form] });
  await rig.source(sql);
  rig.start();
  await rig.untilRealtime();
  return rig;
}

/** Inserts, updates, deletes, a key that moves, and two values that swap in one transaction. */
const changes = (table: string, column: string) => `
  insert into ${table} (id, ${column}) select g, g from generate_series(10, 40) g;
  update ${table} set ${column} = 7 where id < 5; delete from ${table} where id in (2, 12); update ${table} set id = 100 where id = 3;
  begin; update ${table} set id = -1 where id = 20; update ${table} set id = 20 where id = 21; update ${table} set id = 21 where id = -1; commit`;

type Wide = readonly [what: string, form: TupleForm, columns: readonly string[]];
const everyday: readonly Wide[] = [
  ["of 1,600 columns that are mostly null", "text", names(1599).map((name) => `${name} text`)],
  ["whose rows fill a page", "binary", names(1015).map((name) => `${name} int8 default 1`)],
];
const others: readonly Wide[] = [
  ["of 1,600 columns", "binary", names(1599).map((name) => `${name} int default 1`)],
];

test.each(variants(everyday, others))("a table %s, in %s form", async (_, form, columns) => {
  const list = columns.join(", ");
  await using rig = await streaming(
    `create table k (id int primary key, ${list}); create table u (id int, ${list}, unique (c3)); alter table u replica identity full;
       insert into k (id) values (1), (2), (3); insert into u (id, c3) values (1, '1'), (2, '2'), (3, '3')`,
    form,
  );
  await rig.source(changes("k", "c500"));
  await rig.source(
    changes("u", "c3").replaceAll(
      /update u set c3 = 7 where id < 5;/g,
      "update u set c500 = 7 where id < 5;",
    ),
  );
  // What must be taken away before it can be put in place.
  await rig.source("begin; delete from u where id = 30; insert into u (id, c3) values (30, '30'); commit");
  await rig.expectEqual();
  await rig.stop();
  expect(rig.streamForms).toEqual([form]);
});

test("values of 1,600 columns that swap between rows", async () => {
  const list = names(1599)
    .map((name) => `${name} int default 1`)
    .join(", ");
  await using rig = await streaming(
    `create table s (id int primary key, ${list}, unique (c2)); insert into s (id, c2) values (1, 1), (2, 2), (3, 3)`,
    "binary",
  );
  await rig.source(
    "begin; update s set c2 = 9 where id = 1; update s set c2 = 1 where id = 2; update s set c2 = 2 where id = 1; insert into s (id, c2) values (4, 4); commit",
  );
  await rig.expectEqual();
  await rig.stop();
});

test("a row that no longer has room in a staging table that is older", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, big text); alter table t alter big set storage external; insert into t values (1, repeat('x', 9000))",
    "binary",
  );
  const more = names(1598)
    .map((name) => `add column ${name} int`)
    .join(", ");
  await rig.source(`update t set big = 'y' where id = 1; alter table t ${more}; update t set c900 = 1`);
  await rig.expectEqual();
  await rig.stop();
});

describe.each(forms)("in %s form", (form) => {
  testEveryDay(form === "binary")("a table that is nothing but a key, and one without columns", async () => {
    await using rig = await streaming(
      `create table k (id text primary key); create table two (a int, b text, primary key (b, a));
       create table nothing (); alter table nothing replica identity full;
       insert into k values (''), ('a'); insert into two values (1, 'x'); insert into nothing default values`,
      form,
    );
    await rig.source(`insert into k values ('b'), ('c'); update k set id = 'd' where id = 'a'; update k set id = id; delete from k where id = '';
      update two set a = 2; insert into two values (1, 'x'); update two set b = 'y' where a = 2;
      insert into nothing default values; insert into nothing default values;`);
    await rig.expectEqual();
    await rig.source("delete from nothing where ctid = (select min(ctid) from nothing)");
    await rig.source("insert into k values ('last')");
    await rig.expectEqual();
    const left = async () => (await rig.sink("select from nothing")).length === 2;
    await waitFor("the delete of a row without columns", left);
    await rig.stop();
  });

  testEveryDay(form === "text")(
    "names of 63 bytes, with quotes, dots, blanks, in any script, and of SQL's own words",
    async () => {
      const long = `${"é".repeat(31)}x`;
      const odd = ['S "p" a.c,e\\', "表", "select", "Ünï 😀", "%s $1 :x {y}", "-- x", long];
      const quoted = odd.map((name) => `"${name.replaceAll('"', '""')}"`);
      const next = (i: number) => quoted[(i + 1) % odd.length];
      await using rig = await streaming(
        quoted
          .map(
            (name, i) => `create schema ${name}; create type ${name}.${next(i)} as enum ('a', 'b');
            create table ${name}.${name} (${name} int primary key, ${next(i)} ${name}.${next(i)}, c "char");
            insert into ${name}.${name} values (1, 'a', 'x'), (2, 'b', '')`,
          )
          .join(";"),
        form,
      );
      for (const name of quoted) {
        await rig.source(
          `insert into ${name}.${name} values (3); update ${name}.${name} set c = 'z' where ${name} < 3; delete from ${name}.${name} where ${name} = 2; update ${name}.${name} set ${name} = 9 where ${name} = 1`,
        );
      }
      await rig.expectEqual();
      await rig.stop();
    },
  );
});
