// Tests of the comparisons themselves: they must detect every kind of difference, or the tests that rely on them prove
// nothing.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Client } from "pg";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { compareReceived } from "../../src/demo/received-rows.ts";
import type { Delivery } from "../../src/demo/receiver.ts";
import { compareTables, describeDifference, isEqual } from "../../src/demo/table-comparison.ts";
import { listTables } from "../../src/demo/table-facts.ts";

const definition = `
  create table item (
    "Odd ""name" text, line integer, price numeric, at timestamptz, body bytea, doc jsonb, big bigint, tags text[],
    primary key (line, "Odd ""name")
  );
  create table keyless (v float8)`;
const rows = `
  insert into item values
    ('a', 1, 1.500, '2024-02-29 12:00:00.000001+00', '\\xdeadbeef', '{"n": 12345678901234567890.10}', 9007199254740993, '{"x,y",null}'),
    ('b', 1, 'NaN', 'infinity', '\\x', null, -9223372036854775808, '{}');
  insert into keyless values (1.5), (1.5), ('-Infinity')`;

let server: PostgresServer;
let source: Client & AsyncDisposable;
let sink: Client & AsyncDisposable;

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.createDatabase("source");
  await server.createDatabase("sink");
  source = await server.connect("source");
  sink = await server.connect("sink");
  await source.query(definition);
});

beforeEach(async () => {
  await sink.query("drop table if exists item, keyless");
  await sink.query(definition);
  for (const client of [source, sink]) await client.query(`truncate item, keyless; ${rows}`);
});

afterAll(async () => {
  await source.end();
  await sink.end();
  await server[Symbol.asyncDispose]();
});

describe("a Postgres sink", () => {
  const compare = async () => compareTables(source, sink, await listTables(source));

  test("with the same rows is equal", async () => {
    expect((await compare()).map(isEqual)).toEqual([true, true]);
  });

  test.each([
    ["a missing row", `delete from item where line = 1 and "Odd ""name" = 'a'`],
    ["a row too many", "insert into item values ('c', 2)"],
    ["a scale of a number", "update item set price = 1.50 where price = 1.5"],
    ["a null in place of nothing", "update item set tags = null where tags = '{}'"],
    ["a duplicate less, without a key", "delete from keyless where ctid = '(0,1)'"],
    ["a duplicate more, without a key", "insert into keyless values ('-Infinity')"],
    ["a missing table", "drop table keyless"],
  ])("differs by %s", async (_what, change) => {
    await sink.query(change);
    const different = (await compare()).filter((difference) => !isEqual(difference));
    expect(different).toHaveLength(1);
    expect(describeDifference(different[0]!)).toContain("only at the");
  });
});

describe("a webhook receiver", () => {
  const item = (fields: string): Delivery => ({ schema: "public", table: "item", body: fields });
  const a = `{"Odd \\"name":"a","line":1,"price":"1.500","at":"2024-02-29T12:00:00.000001Z","body":"3q2+7w==",
    "doc":{"n":12345678901234567890.10},"big":9007199254740993,"tags":["x,y",null],"_sm_version":10,"_sm_deleted":false}`;
  const b = `{"Odd \\"name":"b","line":1,"price":"NaN","at":"infinity","body":"","doc":null,
    "big":-9223372036854775808,"tags":[],"_sm_version":11,"_sm_deleted":false}`;
  const keyless: Delivery = {
    schema: "public",
    table: "keyless",
    body: `[{"v":1.5,"_sm_version":1,"_sm_deleted":false},{"v":1.5,"_sm_version":2,"_sm_deleted":false},
      {"v":"-Infinity","_sm_version":3,"_sm_deleted":false}]`,
  };
  const compare = async (...deliveries: Delivery[]) => {
    const byKey = new Map(deliveries.map((delivery, index) => [String(index), delivery]));
    return compareReceived(source, byKey, await listTables(source));
  };

  test("with the same rows is equal, whatever older versions it received", async () => {
    const older = b.replace('"NaN"', '"3"').replace("11,", "9,");
    const removed = `{"Odd \\"name":"c","line":1,"_sm_version":12,"_sm_deleted":true}`;
    const created = `{"Odd \\"name":"c","line":1,"_sm_version":11,"_sm_deleted":false}`;
    const differences = await compare(
      item(`[${removed},${b}]`),
      item(a),
      item(`[${older},${created}]`),
      keyless,
    );
    expect(differences.filter((difference) => !isEqual(difference))).toEqual([]);
  });

  test.each([
    ["a missing row", [item(b), keyless]],
    ["a digit", [item(a.replace("9007199254740993", "9007199254740992")), item(b), keyless]],
    ["a row that is deleted", [item(a), item(b.replace("false", "true")), keyless]],
    ["a row that is not deleted", [item(a), item(b), item(b.replace('"b"', '"c"')), keyless]],
    [
      "an old version that won",
      [item(a), item(b.replace('"NaN"', '"3"').replace("11,", "12,")), item(b), keyless],
    ],
    ["a duplicate, without a key", [item(a), item(b), keyless, keyless]],
  ])("differs by %s", async (_what, deliveries) => {
    const differences = await compare(...deliveries);
    expect(differences.filter((difference) => !isEqual(difference))).toHaveLength(1);
  });
});
