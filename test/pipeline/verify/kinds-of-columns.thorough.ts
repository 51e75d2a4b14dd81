// Columns whose two sides are hashed by their texts although their types are like others that are not, and the other way round.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { variants } from "../../support/matrix.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { encodedServer } from "../../support/servers/encoded-server.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const right = { ranges: 0, missing: 0, extra: 0, changed: 0 };

interface Column {
  readonly name: string;
  readonly source: string;
  /** Left out: as at the source. */
  readonly sink?: string;
  readonly value: string;
  /** What the sink has instead: another text that some hash, or some cast, would take for the value's. */
  readonly damaged: string;
}

const own = `create domain whole as int; create type mood as enum ('sad', 'ok'); create type pair as (a int, b text);
  create collation any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  create function pair_text(pair) returns text language sql return 'same'; create cast (pair as text) with function pair_text(pair);`;

const columns: readonly Column[] = [
  { name: "wider", source: "int4", sink: "int8", value: "7", damaged: "4294967303" },
  { name: "narrower", source: "int8", sink: "int4", value: "7", damaged: "-8" },
  { name: "big", source: "int8", value: "1", damaged: "4294967296" },
  { name: "chars", source: "varchar(9)", sink: "text", value: "'a'", damaged: "'a '" },
  { name: "shorter", source: "text", sink: "varchar", value: "''", damaged: "null" },
  { name: "cut", source: "text", sink: "varchar(5)", value: "'abc'", damaged: "'abcd'" },
  { name: "printed", source: "jsonb", sink: "text", value: `'{"a": 1}'`, damaged: `'{"a":1}'` },
  { name: "sorted", source: "text collate any_case", value: "'a'", damaged: "'A'" },
  { name: "sorted_there", source: "text", sink: "text collate any_case", value: "'ä'", damaged: "'Ä'" },
  { name: "blank", source: "char(4)", value: "'a'", damaged: "'b'" },
  { name: "blanks", source: "char(4)", sink: "text", value: "'a'", damaged: "'a'" },
  {
    name: "at",
    source: "timestamptz",
    value: "'2000-01-01 00:00:00.000001+00'",
    damaged: "'2000-01-01 01:11:34.967296+00'",
  },
  { name: "day", source: "timestamptz(0)", sink: "timestamptz", value: "'infinity'", damaged: "'-infinity'" },
  { name: "amount", source: "numeric", value: "1.0", damaged: "1.00" },
  { name: "rounded", source: "numeric", sink: "numeric(9,2)", value: "1.5", damaged: "1.51" },
  { name: "zero", source: "float8", value: "'0'", damaged: "'-0'" },
  { name: "span", source: "interval", value: "'1 mon'", damaged: "'30 days'" },
  { name: "ranked", source: "public.mood", value: "'ok'", damaged: "'sad'" },
  { name: "limited", source: "public.whole", value: "7", damaged: "8" },
  { name: "unlimited", source: "public.whole", sink: "int4", value: "7", damaged: "8" },
  { name: "same", source: "public.pair", value: "'(1,a)'", damaged: "'(2,a)'" },
];

const table = (side: "source" | "sink") =>
  `create table t (id int8 primary key, ${columns.map(({ name, source, sink }) => `${name} ${side === "sink" ? (sink ?? source) : source}`).join(", ")});`;

const fill = `insert into t select g, ${columns.map(({ value }) => value).join(", ")} from generate_series(-100, 100) g; insert into t (id) values (1000)`;

test.each(["UTF8", "LATIN1"])(
  "damages that look alike are found in each column, at a sink of encoding %s",
  async (encoding) => {
    const withoutIcu = (sql: string) =>
      encoding === "UTF8"
        ? sql
        : sql.replaceAll("collate any_case", "").replace(/create collation[^;]*;/, "");
    await using rig = await PipelineRig.streaming(
      server,
      `columns_${encoding.toLowerCase()}`,
      { source: own + table("source") + fill, sink: withoutIcu(own + table("sink")) },
      { sinkServer: encodedServer(server, encoding) },
    );
    expect(await rig.verify("t")).toMatchObject({ rows: 202, ...right });
    for (const [at, { name, damaged }] of columns.entries())
      await rig.sink(`update t set ${name} = ${damaged} where id = ${at - 5}`);
    const found = await rig.verify("t", "DryRun");
    expect(Object.fromEntries(found.sample.map(({ key, columns }) => [key.id!, columns.join()]))).toEqual(
      Object.fromEntries(columns.map(({ name }, at) => [String(at - 5), name])),
    );
    expect(await rig.verify("t", "Apply")).toMatchObject({
      changed: columns.length,
      repaired: columns.length,
    });
    expect(await rig.verify("t")).toMatchObject(right);
    await rig.stop();
  },
);

test.each(variants(["int8", "text", "timestamptz"], ["int4", "numeric", "uuid"]))(
  "a key of type %s",
  async (type) => {
    const value =
      type === "uuid"
        ? "md5(g::text)::uuid"
        : type === "timestamptz"
          ? "timestamptz '2000-01-01' + g * interval '1 us'"
          : `g::${type}`;
    await using rig = await PipelineRig.streaming(server, `key_${type}`, {
      source: `create table t (k ${type}, l int, v text, primary key (k)); insert into t select ${value}, g, 'v' || g from generate_series(-1000, 1000) g`,
    });
    expect(await rig.verify("t")).toMatchObject({ rows: 2001, ...right });
    await rig.sink(
      "delete from t where l = 7; update t set v = 'x' where l in (-8, 8); update t set v = case l when 100 then 'v101' else 'v100' end where l in (100, 101)",
    );
    expect(await rig.verify("t", "Apply")).toMatchObject({ missing: 1, extra: 0, changed: 4, repaired: 5 });
    expect(await rig.verify("t")).toMatchObject(right);
    await rig.stop();
  },
);
