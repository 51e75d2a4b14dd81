import { afterAll, beforeAll, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import { CatalogFullSchema } from "../../../../src/connector/config/catalog.ts";
import { ensureBookkeeping } from "../../../../src/sink/postgres/bookkeeping/ensure-bookkeeping.ts";
import { readCatalog } from "../../../../src/source/postgres/catalog/catalog-reader.ts";
import { fullConnection } from "../../../support/api/connector-config.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const read = (database: string) =>
  readCatalog(fullConnection(server.connection(database)), AbortSignal.timeout(30_000));

test("returns schemas, tables and columns as the contract requires", async () => {
  await server.createDatabase("shop");
  await server.query(
    `create schema app; create schema "Empty one"; create type app.mood as enum ('good', 'bad');
     create table app."Order lines" (line int, "order" bigint, note varchar(20), price numeric(10,2) not null,
       moods app.mood[], total numeric generated always as (price * 2) stored, gone int,
       primary key ("order", line) include (note));
     alter table app."Order lines" drop column gone;
     create table log (at timestamptz);
     create table parts (i int primary key) partition by list (i);
     create table parts_1 partition of parts for values in (1);
     create unlogged table scratch (i int); create view v as select 1;`,
    "shop",
  );
  const catalog = await read("shop");
  expect(Value.Check(CatalogFullSchema, catalog)).toBe(true);
  const column = (
    name: string,
    dataType: string,
    primaryKey: boolean,
    nullable: boolean,
    supported = true,
  ) => ({
    name,
    data_type: dataType,
    primary_key: primaryKey,
    nullable,
    supported,
    action: "Include" as const,
  });
  const table = (name: string, columns: ReturnType<typeof column>[]) => ({
    name,
    columns,
    action: "Include" as const,
    history_enabled: false,
  });
  expect(catalog).toEqual({
    name: "shop",
    default_action: "Exclude",
    schemas: [
      { name: "Empty one", action: "Include", tables: [] },
      {
        name: "app",
        action: "Include",
        tables: [
          table("Order lines", [
            column("line", "integer", true, false),
            column("order", "bigint", true, false),
            column("note", "character varying(20)", false, true),
            column("price", "numeric(10,2)", false, false),
            column("moods", "app.mood[]", false, true),
            column("total", "numeric", false, true),
          ]),
        ],
      },
      {
        name: "public",
        action: "Include",
        tables: [
          table("log", [column("at", "timestamp with time zone", false, true)]),
          table("parts", [column("i", "integer", true, false)]),
          table("parts_1", [column("i", "integer", true, false)]),
        ],
      },
    ],
  });
});

test("a database without schemas has an empty catalog", async () => {
  await server.createDatabase("bare");
  await server.query("drop schema public", "bare");
  expect(await read("bare")).toEqual({ name: "bare", default_action: "Exclude", schemas: [] });
});

test("the tables that a connector keeps in its sink are not listed", async () => {
  await server.createDatabase("chained");
  await using client = await server.connect("chained");
  await ensureBookkeeping(client);
  await client.query("create table millrace.mine (id int)");
  // What copies under way have there.
  for (const name of ["copy_a-b_1_16400", "touched_a-b_1_16400", "seen_a-b_1_16400", "model_a-b_1_16400"])
    await client.query(`create table millrace."${name}" (k0 int)`);
  await client.query(`create unlogged table millrace."chunk_a-b_1_16400_1" (id int)`);
  const { schemas } = await read("chained");
  expect(schemas.flatMap(({ tables }) => tables.map(({ name }) => name))).toEqual(["mine"]);
});
