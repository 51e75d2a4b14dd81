// Copies in slices: all rows come, whatever the chunks, and a row that is refused is told by its number and its key.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import type { Relation } from "../../../../src/change/relation.ts";
import { CopyRowRefused } from "../../../../src/sink/postgres/refusals/refused-rows.ts";
import { tracedCopyIn } from "../../../../src/sink/postgres/refusals/traced-copy.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
let client: Client & AsyncDisposable;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  client = await server.connect();
  await client.query(
    `create table parent (id int primary key);
     insert into parent select generate_series(0, 9);
     create table t (v text, parent int not null references parent, id int check (id <> 40000), name text, primary key (name, id))`,
  );
});
afterAll(async () => {
  await client.end();
  await server[Symbol.asyncDispose]();
});

// Only what is read of a relation here.
const relation = {
  columns: ["v", "parent", "id", "name"].map((name) => ({ name })),
  key: [2, 3],
} as unknown as Relation;

const longBytes = 5_000_000;

/** About 4 MB, a long row behind, and a few more, in chunks of any size. */
async function* chunks(change: (row: string, i: number) => string): AsyncGenerator<Uint8Array> {
  const rows: string[] = [];
  for (let i = 1; i <= 60_000; i++)
    rows.push(change(`${"v".repeat(50)}\t${i % 10}\t${i}\tn\\t\\n\\\\${i}\n`, i));
  rows.splice(30_000, 0, `${"long".repeat(longBytes / 4)}\t1\t-1\tlong\n`);
  const bytes = Buffer.from(rows.join(""));
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const end = at + [1, 70_000, 13, 300_000][i % 4]!;
    yield bytes.subarray(at, end);
    at = end;
  }
}

async function copy(change: (row: string, i: number) => string): Promise<unknown> {
  await client.query("begin; truncate t");
  try {
    const rows = await tracedCopyIn(client, "copy t from stdin (format text)", relation, chunks(change));
    const [count] = (await client.query("select count(*)::int as n, sum(length(v))::int as length from t"))
      .rows;
    return { rows, ...count };
  } catch (error) {
    return error;
  } finally {
    await client.query("rollback");
  }
}

test("all rows, and none twice", async () => {
  const wanted = { rows: 60_000, n: 60_000, length: 59_999 * 50 + longBytes };
  // The row that the check refuses is another.
  expect(await copy((row, i) => (i === 40_000 ? "" : row))).toEqual(wanted);
});

test.each([
  ["a check", 40_001, "(id, name)=(40000, n\t\n\\40000)", (row: string) => row],
  [
    "a value",
    7,
    "(id, name)=(7, n\t\n\\7)",
    (row: string, i: number) => (i === 7 ? row.replace("\t7\t", "\tx\t") : row),
  ],
  [
    "a foreign key, of which the server names no line",
    59_001,
    "(id, name)=(59000, n\t\n\\59000)",
    (row: string, i: number) =>
      i === 40_000 ? row.replace("\t40000\t", "\t99\t") : i >= 59_000 ? row.replace("\t0\t", "\t10\t") : row,
  ],
])("%s", async (_, row, key, change) => {
  const refusal = await copy(change);
  expect(refusal).toBeInstanceOf(CopyRowRefused);
  expect(refusal).toMatchObject({ row, key });
});

test("a row that is too long to be at hand is told by its number", async () => {
  const refusal = await copy((row, i) => (i === 20_000 ? row.replace("vv", "v\tv") : row));
  expect(refusal).toMatchObject({ row: 20_000 });
  await client.query("alter table t add check (id <> -1)");
  expect(await copy((row) => row)).toMatchObject({ row: 30_001, key: null });
});
