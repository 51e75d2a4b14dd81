// On a real server: how rows are divided by their keys, and how keys are printed.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import { digestSql, scanValues } from "../../src/comparison/digest-sql.ts";
import { hashedForm } from "../../src/comparison/hashed-form.ts";
import type { DigestScan, RowComparison } from "../../src/comparison/row-comparison.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
let client: Client;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  client = await server.connect("postgres");
});
afterAll(async () => {
  await client.end();
  await server[Symbol.asyncDispose]();
});

const comparison: RowComparison = {
  columns: [{ number: 1, readAs: null, form: hashedForm(20, 20) }],
  key: [1],
  areEqualRowsOne: false,
  isEncoded: false,
  sample: null,
};

async function scanned<Row extends object>(scan: DigestScan, from: string): Promise<readonly Row[]> {
  for (const { name, value } of scanValues(scan))
    await client.query("select set_config($1, $2, false)", [name, value]);
  return (
    await client.query<Row>(digestSql(comparison, scan, { from, value: () => "id", hasWantedKey: "true" }))
  ).rows;
}

test.each([
  ["one after the other", "select g::int8 from generate_series(1, 100000) g"],
  [
    "a tenant and a number in one",
    "select a::int8 << 32 | b from generate_series(1, 1000) a, generate_series(1, 100) b",
  ],
  ["negative ones", "select -(a::int8 << 40) - b from generate_series(1, 100) a, generate_series(1, 1000) b"],
  ["two equal halves", "select g::int8 << 32 | g from generate_series(8, 800000, 8) g"],
  [
    "a time and a counter in one",
    "select (1700000000000 + g * 7) << 22 | g % 3 from generate_series(1, 100000) g",
  ],
  ["one in so many numbers as there are buckets", "select g::int8 * 8192 from generate_series(1, 100000) g"],
])("buckets are of about the same size, whatever integers are keys: %s", async (_name, keys) => {
  await client.query(`drop table if exists k; create table k (id) as ${keys}`);
  const rows = await scanned<{ b: number; count: string }>(
    { kind: "buckets", buckets: 1024, range: null },
    "k",
  );
  const counts = rows.map(({ count }) => Number(count));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(100_000);
  expect(Math.max(...counts)).toBeLessThan(400);
});

test("rows of a bucket that differs are read again: of numbers without gaps, each bucket has as many", async () => {
  await client.query(
    "drop table if exists k; create table k (id) as select g::int8 from generate_series(0, 65535) g",
  );
  const rows = await scanned<{ count: string }>({ kind: "buckets", buckets: 8192, range: null }, "k");
  expect(rows.map(({ count }) => count)).toEqual(Array.from({ length: 8192 }, () => "8"));
});

test("the key's text is that of its type, whatever cast somebody has made, and NULL is none", async () => {
  await client.query(`drop table if exists k; create table k (id int8); insert into k values (42), (-9223372036854775808), (null);
    create function odd(int8) returns text language sql as 'select ''odd'''; create cast (int8 as text) with function odd(int8)`);
  const all = Array.from({ length: 64 }, (_, bucket) => bucket);
  const rows = await scanned<{ k0: string | null }>({ kind: "rows", buckets: 64, among: all }, "k");
  expect(rows.map(({ k0 }) => k0)).toEqual(["42", "-9223372036854775808", null]);
});
