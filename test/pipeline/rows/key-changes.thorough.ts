// Keys that change at the source while rows travel: the key that millrace made at the sink follows, one that somebody else made
// there is left alone.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { pick } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

setDefaultTimeout(90_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

const create = (options: RigOptions = {}) =>
  PipelineRig.create(server, `key${++count}`, { isSupervised: true, ...options });

const drop = "alter table t drop constraint t_pkey";

/** What is done to `t`, of columns id (its key), a and b; and the columns of its key at the sink then. */
const changes: readonly (readonly [what: string, sql: string, key: string])[] = [
  [
    "moves",
    `${drop}, add primary key (a); insert into t values (1, 30, 'z'); update t set id = 1, b = 'u'`,
    "a",
  ],
  [
    "moves in a transaction",
    `begin; insert into t values (3, 3, 'z'); ${drop}, add primary key (a); insert into t values (1, 5, 'y'); commit`,
    "a",
  ],
  [
    "becomes composite",
    `${drop}, add primary key (id, a); insert into t values (1, 30, 'z'); update t set b = 'u' where a = 30`,
    "a,id",
  ],
  [
    "is renamed as well",
    `alter table t rename a to c; ${drop}, add primary key (c); insert into t values (1, 30, 'z')`,
    "c",
  ],
  ["is dropped", `${drop}; insert into t values (1, 10, 'x')`, ""],
  [
    "takes null",
    `${drop}; alter table t alter id drop not null; insert into t values (null, 10, 'x'), (null, 10, 'x')`,
    "",
  ],
  ["is dropped with its column", "alter table t drop column id; insert into t values (10, 'x')", ""],
  [
    "goes and comes back",
    `${drop}; insert into t values (1, 10, 'x'); alter table t replica identity full; delete from t where ctid = (select max(ctid) from t); alter table t add primary key (id), replica identity default; update t set b = 'u' where id = 1`,
    "id",
  ],
  [
    "becomes a serial one",
    `${drop}; alter table t add column n serial primary key; insert into t values (1, 10, 'x'); update t set b = 'u' where n = 2`,
    "n",
  ],
  [
    "is an index instead",
    `create unique index by_a on t (a); alter table t replica identity using index by_a; ${drop}; insert into t values (1, 30, 'z'); update t set b = 'u' where a = 30`,
    "a",
  ],
  [
    "moves under identity full",
    `alter table t replica identity full; insert into t values (3, 30, 'z'); delete from t where id = 3; ${drop}, add primary key (a); insert into t values (1, 30, 'z'); update t set id = 7 where a = 20`,
    "a",
  ],
  [
    "moves there and back under identity full",
    `alter table t replica identity full; ${drop}, add primary key (a); insert into t values (1, 30, 'z'); delete from t where a = 10; ${drop}, add primary key (id); update t set b = 'u' where id = 2`,
    "id",
  ],
  [
    "is made again under identity full, with no key in between",
    `begin; alter table t replica identity full; ${drop}; update t set id = id + 1; alter table t add primary key (id); commit`,
    "id",
  ],
  [
    "stays under identity full, and has its index made anew",
    "alter table t replica identity full; insert into t values (3, 30, 'z'); reindex table concurrently t; update t set id = id + 10",
    "id",
  ],
  ["is no longer sent", "alter table t replica identity nothing; insert into t values (3, 30, 'z')", ""],
];

/** One table for each change. */
const named = (sql: string, i: number) =>
  sql.replaceAll(/\bt\b/g, `t${i}`).replaceAll("t_pkey", `t${i}_pkey`);
const begin =
  "create table t (id int primary key, a int not null, b text); insert into t values (1, 10, 'x'), (2, 20, 'y')";

async function keyAtSink(rig: PipelineRig, table: string): Promise<string> {
  const [row] = await rig.sink<{ key: string | null }>(
    `select (select string_agg(distinct a.attname, ',' order by a.attname) from pg_index i join pg_attribute a on a.attrelid = i.indexrelid
       where i.indrelid = c.oid and i.indisunique) as key from pg_class c where c.oid = '${table}'::regclass`,
  );
  return row?.key ?? "";
}

/** Every day one half of the changes is made while it streams, the other one while it is stopped. */
describe.each(["while it streams", "while it is stopped"])("a key that changes %s", (when) => {
  const half = when === "while it streams" ? 0 : 1;
  const made = pick([...changes.entries()], ([i]) => i % 2 === half);

  test("is followed", async () => {
    await using rig = await create();
    for (const [i] of made) await rig.source(named(begin, i));
    rig.start();
    await rig.untilRealtime();
    await rig.expectEqual();
    if (when === "while it is stopped") await rig.stop();
    for (const [i, [, sql]] of made) {
      // Statement by statement, each in a transaction of its own unless it begins one.
      const isOne = sql.startsWith("begin");
      for (const each of isOne ? [sql] : sql.split("; ")) {
        await rig.source(named(each, i)).catch((error: unknown) => {
          // Updates of a published table without an identity are refused.
          if (!String(error).includes("replica identity")) throw error;
        });
      }
    }
    if (when === "while it is stopped") rig.start();
    // Many tables, and some are copied again.
    await rig.expectEqual(60_000);
    for (const [i, [what, , key]] of made) {
      await waitFor(`the key of t${i}, which ${what}`, async () => (await keyAtSink(rig, `t${i}`)) === key);
    }
    const started = rig.phases.filter(({ health }) => health.kind === "start").map(({ phase }) => phase);
    const copies = started.flatMap((phase) => (phase.name === "snapshot" ? [phase.table] : []));
    // A table whose rows can be told apart all along is not copied again.
    for (const [i] of made.filter(([i]) => [0, 1, 2, 3, 9, 13].includes(i)))
      expect(copies.filter((table) => table === `public.t${i}`)).toHaveLength(1);
    // And the tables go on.
    for (const [i] of made) await rig.source(`insert into t${i} select * from t${i} where false`);
    await rig.expectEqual();
    await rig.stop();
  });
});

test("a column of the key that is renamed under identity full stays in the key of earlier changes", async () => {
  await using rig = await create();
  const tables = { p: "primary key (a, b)", q: "primary key (b)" };
  for (const [table, key] of Object.entries(tables))
    await rig.source(`create table ${table} (a int, b int, v text, ${key}); alter table ${table} replica identity full;
      insert into ${table} values (1, 1, 'x'), (1, 2, 'y')`);
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.stop();
  const renamed = Object.keys(tables).map(
    (table) => `update ${table} set v = v || b; alter table ${table} rename b to c`,
  );
  await rig.source(
    `begin; ${renamed.join("; ")}; commit; update p set v = 'z' where c = 2; update q set v = 'z' where c = 2`,
  );
  rig.start();
  await rig.expectEqual();
  expect(rig.copies.map(({ table }) => table).toSorted()).toEqual(["p", "q"]);
  await rig.stop();
});

test("tables whose names are exchanged again and again, and that are copied again each time, leave nothing behind", async () => {
  await using rig = await create();
  await rig.source(
    "create table t (a int, constraint tk primary key (a)); create table u (a int, b int, constraint uk primary key (b))",
  );
  await rig.source("insert into t values (1), (2); insert into u values (1, 1), (1, 2)");
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  const exchange = "alter table t rename to x; alter table u rename to t; alter table x rename to u";
  // Without a key there are inserts alone: another copy.
  const lost =
    "alter table t drop constraint uk; alter table u drop constraint tk; insert into t values (1, 1); insert into u values (1)";
  const found =
    "delete from t x using t y where x.ctid < y.ctid and x = y; delete from u x using u y where x.ctid < y.ctid and x = y; alter table t add constraint tk primary key (a); alter table u add constraint uk primary key (b)";
  for (const change of [lost, found, "update t set a = a + 1"]) {
    await rig.stop();
    await rig.source(`${exchange}; ${change}`);
    rig.start();
    await rig.expectEqual();
  }
  const tables = await rig.sink<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1",
  );
  expect(tables.map(({ name }) => name)).toEqual(["t", "u"]);
  await rig.stop();
});

test("a change under a key of which the table's new one tells nothing names the table, which is copied again", async () => {
  await using rig = await create({ isSupervised: false, pace: { tableCheckMs: 60_000 } });
  await rig.source(begin);
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.source(`begin; update t set id = 5 where id = 1; ${drop};
    alter table t add column g int not null generated always as (a * 2) stored, add primary key (g); commit`);
  expect(((await rig.ended()) as MillraceError).message).toContain(
    "Table public.t: a row was changed under a key that is not known any more",
  );
  rig.start();
  await rig.expectSame("select id, a, b from t order by a");
  await rig.stop();
});

test.each(["default", "full"])(
  "a column that a key's index only includes is no part of it, under identity %s",
  async (identity) => {
    await using rig = await create({ isSupervised: false });
    await rig.source(`create table t (id int, v text, primary key (id) include (v)); insert into t values (1, 'x'), (2, 'y');
    alter table t replica identity ${identity}`);
    rig.start();
    await rig.untilRealtime();
    await rig.source("update t set v = v || 'z'; delete from t where id = 2");
    await rig.expectEqual();
    expect(await keyAtSink(rig, "t")).toBe("id");
    expect(rig.copies).toHaveLength(1);
    await rig.stop();
  },
);

test("a key that somebody made at the sink is left alone, and the reason says the SQL", async () => {
  await using rig = await create({ isSupervised: false });
  await rig.source(begin);
  await rig.sink("create table t (id int constraint mine primary key, a int, b text)");
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.source(`${drop}, add primary key (a); insert into t values (1, 30, 'z')`);
  const refused = (await rig.ended()) as MillraceError;
  expect(refused.message).toContain('ALTER TABLE "public"."t" DROP CONSTRAINT "mine";');
  await rig.sink("alter table t drop constraint mine");
  rig.start();
  await rig.expectEqual();
  await rig.stop();
});

test("a key that must not be changed names the SQL that changes it", async () => {
  await using rig = await create({
    sink: { migration_strategy: { allowed: ["Add", "Drop"], disable_all: false } },
  });
  await rig.source(begin);
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.source(`${drop}, add primary key (a); insert into t values (1, 30, 'z')`);
  const commands = [
    'alter table "public"."t" drop constraint "t_pkey";',
    'alter table "public"."t" add primary key ("a");',
  ];
  await waitFor("the reason", () =>
    JSON.stringify(rig.phases).includes(JSON.stringify(commands.join(" ")).slice(1, -1)),
  );
  for (const command of commands) await rig.sink(command);
  await rig.expectEqual();
  await rig.stop();
});
