// Columns that are hashed on their way: the same text from the copy, which the server hashes, and from the stream, which we do.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const salt = "pepper 'ü\\";

function hashing(table: string, columns: readonly string[]): Catalog {
  return {
    name: "db",
    default_action: "Include",
    column_hashing: { algorithm: "Sha256", salt },
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: [
          {
            name: table,
            action: "Include",
            history_enabled: false,
            columns: columns.map((name) => ({ name, action: "Include", hash: {} })),
          },
        ],
      },
    ],
  };
}

const hashOf = (text: string) => createHash("sha256").update(`${salt}${text}`).digest("hex");

/** Types whose output function and cast to text differ are among them: bool, char(n), inet, xml. */
const values: Readonly<Record<string, string>> = {
  int4: "'-7'",
  int8: "'9223372036854775807'",
  numeric: "'1.500'",
  float8: "'-0'",
  bool: "true",
  "char(6)": "'ab'",
  varchar: "'ünïcode \\ tab\t'",
  text: "''",
  '"char"': "'x'",
  name: "'n'",
  inet: "'10.0.0.1'",
  cidr: "'10.0.0.0/8'",
  timestamptz: "'2024-02-29 12:00:00.123456+02'",
  date: "'0044-03-15 BC'",
  interval: "'1 year -2 days 03:04:05.6'",
  bytea: "'\\x00ff10'",
  jsonb: `'{"b":1.50,"a":null}'`,
  json: `'{ "b" : 1 }'`,
  xml: `'<?xml version="1.0" encoding="ISO-8859-1"?><a>1</a>'`,
  "int4[]": "'{{1,null},{3,4}}'",
  "bool[]": "'{t,f}'",
  bit: "B'1'",
  money: "'12.34'",
  point: "'(1.5,-2)'",
  int4range: "'[1,5)'",
  mood: "'so so'",
  pair: "row(null, null)",
  positive: "'5'",
};

test("the same hash of a value's output text, for every kind of type, from copy and stream", async () => {
  const types = Object.keys(values);
  const names = types.map((_, i) => `c${i}`);
  const catalog = hashing("t", names);
  await using rig = await PipelineRig.create(server, "hash_types", { source: { catalog } });
  await rig.source(`create type mood as enum ('so so'); create type pair as (a int, b text);
    create domain positive as int check (value > 0);
    create table t (id int primary key, ${types.map((type, i) => `c${i} ${type}`).join(", ")});
    insert into t values (1, ${Object.values(values).join(", ")});
    insert into t (id) values (2)`);
  rig.start();
  await rig.untilRealtime();
  await rig.source(
    `insert into t values (3, ${Object.values(values).join(", ")}); insert into t (id) values (4)`,
  );
  await waitFor("the stream's rows", async () => (await rig.sink("select from t")).length === 4);

  const sink = await rig.sink("select * from t order by id");
  const [fromCopy, copiedNull, fromStream, streamedNull] = sink;
  expect({ ...fromStream, id: 0 }).toEqual({ ...fromCopy, id: 0 });
  expect(copiedNull).toEqual({ ...copiedNull, ...Object.fromEntries(names.map((name) => [name, null])) });
  expect(streamedNull).toEqual({ ...copiedNull, id: 4 });
  await using client = await server.connect(rig.sourceDatabase);
  await client.query("set timezone = 'UTC'; set lc_monetary = 'C'");
  const copied = await client.query(
    `select ${names.map((name) => `format('%s', ${name}) as ${name}`).join(", ")} from t where id = 1`,
  );
  const expected = Object.entries(copied.rows[0] as Record<string, string>).map(([name, text]) => [
    name,
    hashOf(text),
  ]);
  expect({ ...fromCopy }).toMatchObject(Object.fromEntries(expected));
  const columnTypes = await rig.sink<{ type: string }>(
    "select distinct format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 't'::regclass and attnum > 1",
  );
  expect(columnTypes).toEqual([{ type: "text" }]);
  await rig.stop();
});

test("a hashed key finds its row; TOASTed values that an update leaves alone stay", async () => {
  const catalog = hashing("t", ["id", "big"]);
  await using rig = await PipelineRig.create(server, "hash_key", { source: { catalog } });
  await rig.source(`create table t (id text primary key, big text, n int); alter table t alter big set storage external;
    insert into t select 'k' || g, repeat(g::text, 5000), g from generate_series(1, 4) g`);
  rig.start();
  await rig.untilRealtime();
  await rig.source(`update t set n = 10 where id = 'k1'; delete from t where id = 'k2';
    update t set id = 'k30' where id = 'k3'; insert into t values ('k5', repeat('5', 5000), 5);
    update t set n = 50 where id = 'k5'`);
  const expected = (await rig.source<{ id: string; big: string; n: number }>("select * from t"))
    .map(({ id, big, n }) => ({ id: hashOf(id), big: hashOf(big), n }))
    .sort((a, b) => a.n - b.n);
  await waitFor("the sink", async () =>
    Bun.deepEquals(await rig.sink("select * from t order by n"), expected),
  ).catch(() => {});
  expect(await rig.sink("select * from t order by n")).toEqual(expected);
  await rig.stop();
});

test("a table with hashed columns that comes while the stream is binary makes it text", async () => {
  await using rig = await PipelineRig.create(server, "hash_later", {
    source: { catalog: hashing("t", ["v"]) },
  });
  const catalog = hashing("t", ["v"]);
  catalog.schemas[0]!.tables[0]!.action = "Exclude";
  rig.reconfigure({ catalog });
  await rig.source(
    "create table other (id int primary key); create table t (id int primary key, v int); insert into t values (1, 1)",
  );
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into other values (1); insert into t values (2, 2)");
  await waitFor("the row", async () => (await rig.sink("select from other")).length === 1);
  await rig.stop();
  rig.reconfigure({ catalog: hashing("t", ["v"]) });
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t values (3, 3)");
  await waitFor("all rows", async () => (await rig.sink("select from t")).length === 3);
  expect(await rig.sink("select v from t order by id")).toEqual(
    ["1", "2", "3"].map((text) => ({ v: hashOf(text) })),
  );
  await rig.stop();
});

test("hashing a column of a connector that has run copies its table again: no clear value stays", async () => {
  const plain = { ...hashing("t", []), column_hashing: undefined as never };
  await using rig = await PipelineRig.create(server, "hash_patch", { source: { catalog: plain } });
  await rig.source("create table t (id int primary key, v text); insert into t values (1, 'clear')");
  rig.start();
  await rig.untilRealtime();
  await rig.stop();
  await rig.source("insert into t values (2, 'clear too')");
  rig.reconfigure({ catalog: hashing("t", ["v"]) });
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t values (3, 'x')");
  await waitFor("all rows", async () => (await rig.sink("select from t")).length === 3);
  const expected = ["clear", "clear too", "x"].map((text) => ({ v: hashOf(text) }));
  expect(await rig.sink("select v from t order by id")).toEqual(expected);
  await rig.stop();
});
