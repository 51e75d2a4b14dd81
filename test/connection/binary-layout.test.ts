import { afterAll, beforeAll, expect, test } from "bun:test";
import { BinaryLayouts } from "../../src/connection/binary-layout.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ major: 17, settings: { fsync: "off" } });
  await server.query(`create extension hstore; create type mood as enum ('a', 'b'); create type pair as (a int, b int);
    create domain whole as int4; create domain wholes as int4[]; create domain pairs as pair; create domain deep as whole;
    create type whole_range as range (subtype = whole); create type mood_range as range (subtype = mood);
    create type pair_range as range (subtype = pair)`);
});
afterAll(() => server[Symbol.asyncDispose]());

async function layoutOf(name: string, of = server): Promise<string | null> {
  await using client = await of.connect();
  const { rows } = await client.query<{ oid: number }>("select $1::text::regtype::oid as oid", [name]);
  const oid = rows[0]?.oid ?? 0;
  return (await BinaryLayouts.read(client, [oid])).of(oid);
}

test.each([
  ["int4", "23"],
  ["int4[]", "1007"],
  ["mood", "label"],
  ["whole", "23"],
  ["deep", "23"],
  ["wholes", "1007"],
  ["whole_range", "range(23)"],
  ["mood_range", "range(label)"],
  ["whole_multirange", "multirange(range(23))"],
  ["hstore", "public.hstore"],
  ["interval", "1186 infinite"],
])("%s has the layout %s", async (type, layout) => {
  expect(await layoutOf(type)).toBe(layout);
});

test.each([
  "mood[]",
  "pair",
  "pair[]",
  "pairs",
  "whole[]",
  "hstore[]",
  "pair_range",
  "regclass",
  "aclitem[]",
])("%s cannot be sent in binary", async (type) => {
  expect(await layoutOf(type)).toBeNull();
});

test("the layout of interval differs from version 17 on", async () => {
  await using older = await PostgresServer.start({ major: 16, settings: { fsync: "off" } });
  expect(await layoutOf("interval", older)).toBe("1186");
});
