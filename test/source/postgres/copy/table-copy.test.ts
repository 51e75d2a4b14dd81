// A table that is altered before its copy: between the reading of its shape and the snapshot, or after the snapshot.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { CopyPart } from "../../../../src/change/copy-part.ts";
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
  readonly part?: CopyPart;
}) {
  await using at = await begun(server);
  await at.sql(of.tables ?? "insert into t values (1, 'old')");
  const table = (await at.source.tables()).find(({ relation }) => relation.name === "t");
  await at.sql(of.beforePoint ?? "");
  await using point = await at.source.snapshotPoint(never);
  await at.sql(of.afterPoint ?? "");
  return await textOf(at.source.readTable(table!, point, "text", of.part)).catch((error: unknown) => error);
}

const changed = { code: "table_changed", retry: "transient" };

describe("between its shape and the snapshot", () => {
  test.each([
    ["truncate t; insert into t values (1, 'new')", "1\tnew\n"],
    ["alter table t alter v type text using 'new'", "1\tnew\n"],
    ["vacuum full t", "1\told\n"],
  ])("a rewrite that leaves the columns' types is no obstacle: %s", async (beforePoint, rows) => {
    expect(await copied({ beforePoint })).toBe(rows);
  });

  test.each([
    "alter table t alter id type bigint",
    "alter table t alter v type varchar(9)",
    "alter table t add w int default random() * 9",
    "alter table t rename to former; create table t (id int primary key, v text)",
    "drop table t; create table t (id int primary key, v text)",
  ])("another table, column or type is not that of the shape: %s", async (beforePoint) => {
    expect(await copied({ beforePoint })).toMatchObject(changed);
  });

  test("a rewrite moves rows to other pages than those of a range", async () => {
    const part: CopyPart = { kind: "range", range: { from: 0, to: null } };
    expect(await copied({ part })).toBe("1\told\n");
    expect(await copied({ part, beforePoint: "truncate t" })).toMatchObject(changed);
  });
});

describe("after the snapshot", () => {
  test.each(["truncate t", "alter table t alter v type varchar(9)", "drop table t"])(
    "the snapshot may see nothing in a table that was rewritten: %s",
    async (afterPoint) => {
      expect(await copied({ afterPoint })).toMatchObject(changed);
    },
  );

  test("another table that has taken the name is not that of the shape", async () => {
    const tables = "insert into t values (1, 'old'); create table other (id int primary key, v text)";
    expect(
      await copied({ tables, afterPoint: "alter table t rename to former; alter table other rename to t" }),
    ).toMatchObject(changed);
  });
});
