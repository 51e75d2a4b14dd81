// The work of catalog queries must not grow with the square of the number of tables.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import { readTargetTables } from "../../../src/sink/postgres/schema/target-table.ts";
import { selectionOf } from "../../../src/source/postgres/catalog/table-selection.ts";
import { readStorage, readTableShapes } from "../../../src/source/postgres/shapes/table-shapes.ts";
import { postgresSource } from "../../support/api/connector-config.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

const tables = 800;
const partitioned = 20;
let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query(`do $$ begin for i in 1..${tables} loop
      execute format('create table t%s (id int primary key, a text)', i);
    end loop;
    for i in 1..${partitioned} loop
      execute format('create table p%s (id int primary key) partition by range (id)', i);
      execute format('create table p%1$s_1 partition of p%1$s for values from (0) to (9)', i);
    end loop; end $$`);
  await server.query("analyze");
});

afterAll(() => server[Symbol.asyncDispose]());

/** The number of rows that `action` reads from the catalogs that grow with the tables. */
async function rowsScanned(action: (client: Client) => Promise<unknown>): Promise<number> {
  await using client = await server.connect();
  await client.query("set search_path = ''");
  const scanned = async () => {
    await client.query("select pg_stat_force_next_flush()");
    const { rows } = await client.query<{ n: string }>(
      `select ((select sum(seq_tup_read) from pg_stat_sys_tables where relname = any ($1))
        + (select sum(idx_tup_read) from pg_stat_sys_indexes where relname = any ($1)))::text as n`,
      [["pg_class", "pg_attribute", "pg_index", "pg_type"]],
    );
    return Number(rows[0]?.n);
  };
  const before = await scanned();
  await action(client);
  return (await scanned()) - before;
}

/** The work of some complete scans, but not of one per table. */
const few = 100 * tables;

test.each([false, true])("of the source, partitions as root: %p", async (asRoot) => {
  const selection = selectionOf(postgresSource(server.connection("postgres")));
  const scanned = await rowsScanned(async (client) => {
    const shapes = await readTableShapes(client, selection, asRoot);
    expect(shapes).toHaveLength(tables + partitioned);
    expect(shapes.every(({ storage }) => /^\d+$/.test(storage ?? ""))).toBe(true);
  });
  expect(scanned).toBeGreaterThan(tables);
  expect(scanned).toBeLessThan(few);
});

test("of one table of the source", async () => {
  const [{ oid } = { oid: 0 }] = await server.query<{ oid: number }>("select 't7'::regclass::oid as oid");
  const scanned = await rowsScanned(async (client) => {
    for (let i = 0; i < 400; i++) expect(await readStorage(client, oid)).toMatch(/^\d+$/);
  });
  expect(scanned).toBeLessThan(few);
});

test("of the sink", async () => {
  const targets = Array.from({ length: tables }, (_, i) => ({ schema: "public", name: `t${i + 1}` }));
  const scanned = await rowsScanned(async (client) => {
    const found = await readTargetTables(client, targets);
    expect(found.every((table) => table?.columns[1]?.plainType === "pg_catalog.text")).toBe(true);
  });
  expect(scanned).toBeLessThan(few);
});
