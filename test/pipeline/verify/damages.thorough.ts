// Damages of every kind are found, named by key and column, and mended; and nothing else is touched.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (sql: { readonly source: string; readonly sink?: string }, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `verify${++count}`, sql, options);

const counts = ({ missing, extra, changed }: { missing: number; extra: number; changed: number }) => ({
  missing,
  extra,
  changed,
});

/** Which rows were written since, by the place where they are and who wrote them. */
const written = "select id::text, ctid::text, xmin::text from t order by id";

test("a table that is right has no difference, also an empty one", async () => {
  await using rig = await streaming({
    source:
      "create table t (id int primary key, v text); insert into t select g, 'v' || g from generate_series(1, 5000) g; create table e (id int primary key)",
  });
  expect(await rig.verify("t")).toMatchObject({
    rows: 5000,
    ranges: 0,
    missing: 0,
    extra: 0,
    changed: 0,
    sample: [],
  });
  expect(await rig.verify("e")).toMatchObject({ rows: 0, ranges: 0 });
  await rig.stop();
});

test("each damage is found by its key and column, and mended, and nothing else is touched", async () => {
  await using rig = await streaming({
    source: `create table t (id int primary key, a text, b text, f float8, n numeric, big text);
      alter table t alter big set storage external;
      insert into t select g, 'a' || g, '', 0, g, repeat(md5(g::text), 200) from generate_series(1, 3000) g`,
  });
  await rig.expectEqual();
  await rig.sink(`
    update t set a = 'wrong' where id = 1; update t set b = null where id = 2; update t set f = '-0' where id = 3;
    update t set a = a || ' ' where id = 4; update t set n = 5.0 where id = 5;
    update t set big = overlay(big placing chr(ascii(substr(big, 3000, 1)) # 1) from 3000 for 1) where id = 6;
    delete from t where id = 7; update t set id = 100008 where id = 8; insert into t values (100009, 'extra')`);
  const before = new Map((await rig.sink<{ id: string }>(written)).map((row) => [row.id, row]));
  const dry = await rig.verify("t", "DryRun");
  expect(counts(dry)).toEqual({ missing: 2, extra: 2, changed: 6 });
  expect(dry.rows).toBe(3000);
  const found = dry.sample.map(({ key, kind, columns }) => `${key.id} ${kind} ${columns.join()}`);
  expect(found.toSorted()).toEqual(
    [
      ...["1 Changed a", "2 Changed b", "3 Changed f", "4 Changed a", "5 Changed n", "6 Changed big"],
      ...["7 Missing ", "8 Missing ", "100008 Extra ", "100009 Extra "],
    ].toSorted(),
  );
  expect(await rig.sink(written)).toEqual([...before.values()]);

  expect(await rig.verify("t", "Apply")).toMatchObject({ ...counts(dry), repaired: 10 });
  await rig.expectEqual();
  const touched = (await rig.sink<{ id: string }>(written)).filter(
    (row) => !Bun.deepEquals(row, before.get(row.id)),
  );
  expect(touched.map(({ id }) => id)).toEqual(["1", "2", "3", "4", "5", "6", "7", "8"]);
  expect(await rig.verify("t")).toMatchObject({ ranges: 0, missing: 0, extra: 0, changed: 0 });
  await rig.stop();
});

test("rows that somebody damages again and again are mended a few times, and then told", async () => {
  await using rig = await streaming({
    source:
      "create table t (id int primary key, v text); insert into t select g, 'v' from generate_series(1, 9) g",
  });
  let comparisons = 0;
  rig.beforeComparison = async () => {
    await rig.sink(`update t set v = 'wrong' where id = ${++comparisons}`);
  };
  expect(await rig.verify("t", "Apply")).toMatchObject({ missing: 0, extra: 0, changed: 5, repaired: 4 });
  expect(comparisons).toBe(5);
  expect(await rig.sink("select id from t where v = 'wrong'")).toEqual([{ id: 5 }]);
  await rig.stop();
});

test("values that are too long to be shown are compared all the same, and a comment stands for their statement", async () => {
  const long = "repeat(md5(g::text), 300)";
  await using rig = await streaming({
    source: `create table t (id int primary key, v int, big text);
      insert into t select g, g, ${long} from generate_series(1, 5) g`,
  });
  await rig.expectEqual();
  await rig.sink(`update t set big = big || 'x' where id = 1; update t set v = 0 where id = 2; delete from t where id = 3;
    update t set big = 'short' where id = 4`);
  const dry = await rig.verify("t", "DryRun");
  const found = dry.sample.map(({ key, kind, columns }) => `${key.id} ${kind} ${columns.join()}`);
  expect(found.toSorted()).toEqual(["1 Changed big", "2 Changed v", "3 Missing ", "4 Changed big"]);
  const left = dry.statements?.filter((statement) => statement.startsWith("-- The row {"));
  expect([dry.statements?.length, left?.length]).toEqual([4, 3]);
  expect(JSON.stringify(dry).length).toBeLessThan(2_000);
  for (const statement of dry.statements ?? []) await rig.sink(statement);
  expect(await rig.verify("t")).toMatchObject({ missing: 1, changed: 2 });
  expect(await rig.verify("t", "Apply")).toMatchObject({ repaired: 3 });
  await rig.expectEqual();
  await rig.stop();
});

test("the statements of a dry run mend the rows of the sample", async () => {
  await using rig = await streaming({
    source: `create table "O'dd ""T""" ("k""1" text, k2 int, v jsonb, "select" bytea, primary key ("k""1", k2));
      insert into "O'dd ""T""" select 'it''s \\ ' || g, g, '{"a": "b''c"}', '\\x00ff' from generate_series(1, 50) g`,
  });
  const name = `O'dd "T"`;
  await rig.sink(`update "O'dd ""T""" set v = '{}', "select" = null where k2 = 1; delete from "O'dd ""T""" where k2 = 2;
    update "O'dd ""T""" set "k""1" = 'moved' where k2 = 3`);
  const dry = await rig.verify(name, "DryRun");
  expect(counts(dry)).toEqual({ missing: 2, extra: 1, changed: 1 });
  expect(dry.statements).toHaveLength(4);
  for (const statement of dry.statements ?? []) await rig.sink(statement);
  expect(await rig.verify(name)).toMatchObject({ ranges: 0 });
  await rig.expectEqual();
  await rig.stop();
});

test.each([
  ["varchar", "'007'", "int8"],
  ["numeric", "7.004", "numeric(9,2)"],
])(
  "a row whose key the sink's type changes is not removed by a repair: %s %s as %s",
  async (type, key, atSink) => {
    await using rig = await streaming({
      source: `create table t (k ${type} primary key, v text); insert into t values (${key}, 'a'), (5, 'b')`,
      sink: `create table t (k ${atSink} primary key, v text)`,
    });
    await rig.sink("update t set v = 'x' where k = 5");
    expect(await rig.verify("t", "Apply")).toMatchObject({ changed: 1, repaired: 1 });
    await rig.sink("update t set v = 'x' where k = 7");
    expect(await rig.verify("t")).toMatchObject({ changed: 1 });
    for (const repair of ["DryRun", "Apply"] as const)
      await expect(rig.verify("t", repair)).rejects.toMatchObject({ code: "unsupported_kind" });
    expect(await rig.sink("select v from t order by v")).toEqual([{ v: "b" }, { v: "x" }]);
    await rig.stop();
  },
);

test("rows that stand in the way of each other's unique values are mended", async () => {
  const rows = 2_000;
  await using rig = await streaming({
    source: `create table t (id int primary key, mail text); insert into t select g, 'm' || g from generate_series(1, ${rows}) g`,
  });
  await rig.expectEqual();
  // Each row has the value of another one, and one that the source does not have has the value of one that is missing.
  await rig.sink(`delete from t where id = 7; update t set mail = 'm' || case id when 6 then 8 else id % ${rows} + 1 end;
    insert into t values (-1, 'm7'); create unique index on t (mail)`);
  expect(await rig.verify("t", "Apply")).toMatchObject({
    missing: 1,
    extra: 1,
    changed: rows - 1,
    repaired: rows + 1,
  });
  await rig.expectEqual();
  expect(await rig.verify("t")).toMatchObject({ ranges: 0 });
  await rig.stop();
});

test("more rows than are replaced at once are left alone where they may stand in each other's way", async () => {
  await using rig = await streaming({
    source:
      "create table t (id int primary key, mail text); insert into t select g, 'm' || g from generate_series(1, 51000) g",
  });
  await rig.sink("update t set mail = 'x' || id; create unique index on t (mail)");
  await expect(rig.verify("t", "Apply")).rejects.toMatchObject({
    code: "unsupported_kind",
    message: expect.stringContaining("More than 50000 differ"),
  });
  expect(await rig.sink("select from t where mail like 'm%'")).toEqual([]);
  await rig.sink("update t set mail = 'm' || id where id <= 1000");
  expect(await rig.verify("t", "Apply")).toMatchObject({ changed: 50_000, repaired: 50_000 });
  await rig.expectEqual();
  await rig.stop();
});
