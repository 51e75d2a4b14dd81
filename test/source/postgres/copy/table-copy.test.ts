// A table that is altered before its copy: between the reading of its shape and the snapshot, or after the snapshot.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { AskComputed } from "../../../../src/change/computed-columns.ts";
import { begun, never, textOf } from "../../../support/contract/source.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Runs the statements in their turn, and reads the table: its text, or the error. */
async function copied(of: {
  readonly tables?: string;
  readonly beforePoint?: string;
  readonly afterPoint?: string;
}) {
  await using at = await begun(server);
  await at.sql(of.tables ?? "insert into t values (1, 'old')");
  const table = (await at.source.tables()).find(({ relation }) => relation.name === "t");
  await at.sql(of.beforePoint ?? "");
  await using point = await at.source.snapshotPoint(never);
  await at.sql(of.afterPoint ?? "");
  return await textOf(at.source.readTable(table!, point, "text")).catch((error: unknown) => error);
}

const changed = { code: "table_changed", retry: "transient" };

test("as it was", async () => {
  expect(await copied({})).toBe("1\told\n");
});

describe("between the reading of its shape and the snapshot", () => {
  test.each([
    "truncate t",
    "alter table t alter v type text using 'new'",
    "alter table t alter v type varchar(9)",
    "alter table t add w int default random() * 9",
    "alter table t rename to former; create table t (id int primary key, v text)",
    "drop table t; create table t (id int primary key, v text)",
  ])("%s", async (beforePoint) => {
    expect(await copied({ beforePoint })).toMatchObject(changed);
  });
});

describe("after the snapshot", () => {
  test.each(["truncate t", "alter table t alter v type varchar(9)", "drop table t"])(
    "%s",
    async (afterPoint) => {
      expect(await copied({ afterPoint })).toMatchObject(changed);
    },
  );

  test.each(["id int primary key, v text", ""])("another table has taken its name: (%s)", async (columns) => {
    const tables = `drop table t; create table t (${columns}); create table other (${columns})`;
    const afterPoint = "alter table t rename to former; alter table other rename to t";
    expect(await copied({ tables, afterPoint })).toMatchObject(changed);
  });
});

test("a column that the sink computes is no longer computed at the source", async () => {
  await using at = await begun(server);
  await at.sql("alter table t add g int generated always as (id * 2) stored; insert into t (id) values (1)");
  const answer = { isComputed: true, isThere: true } as const;
  const all: AskComputed = async (tables) =>
    new Map(
      tables.map(({ relation, generated = [] }) => [
        relation.id,
        new Map(generated.map(({ column }) => [column.number, answer])),
      ]),
    );
  const [table] = await at.source.tables(all);
  expect(table?.generated?.map(({ column }) => column.name)).toEqual(["g"]);
  const copy = async () => {
    await using point = await at.source.snapshotPoint(never);
    return await textOf(at.source.readTable(table!, point, "text"));
  };
  expect(await copy()).toBe("1\t\\N\n");
  await at.sql("alter table t alter g drop expression; update t set g = 0");
  await expect(copy()).rejects.toMatchObject(changed);
});

test("the tables count as changed from then on, until they are read again", async () => {
  await using at = await begun(server);
  const [table] = await at.source.tables();
  await at.source.publish();
  expect(await at.source.areTablesChanged?.()).toBe(false);
  await at.sql("vacuum full t");
  // The catalog is not read for each rewrite.
  expect(await at.source.areTablesChanged?.()).toBe(false);
  await using point = await at.source.snapshotPoint(never);
  await expect(textOf(at.source.readTable(table!, point, "text"))).rejects.toMatchObject(changed);
  expect(await at.source.areTablesChanged?.()).toBe(true);
  const [again] = await at.source.tables();
  expect(await at.source.areTablesChanged?.()).toBe(false);
  expect(await textOf(at.source.readTable(again!, point, "text"))).toBe("");
});
