// The native format: any row is valid JSON that decodes to the same values; every type of a real server as
// Postgres means it.

import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { Client } from "pg";
import { zeroLsn } from "../../../src/change/lsn.ts";
import type { Relation } from "../../../src/change/relation.ts";
import { NativeRowEncoder } from "../../../src/sink/format/native-row.ts";
import type { RowContext } from "../../../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../../src/sink/format/values/tuple-view.ts";
import { relation, type TextTuple, tupleBytes, unchanged } from "../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

const context = (change: Partial<RowContext> = {}): RowContext => ({
  operation: "create",
  version: 1_700_000_000_000_001,
  oldIsKey: false,
  commitTimeUs: 0,
  commitLsn: zeroLsn,
  place: 0,
  totalOrder: 0,
  tableOrder: 0,
  xid: 1,
  snapshot: false,
  ...change,
});

function encode(
  table: Relation,
  after: TextTuple | null,
  options: {
    before?: TextTuple;
    placeholder?: boolean;
    schemaPrefix?: string;
    context?: Partial<RowContext>;
  } = {},
): string {
  const parts = [after, options.before ?? null].map((tuple) =>
    tuple ? tupleBytes(tuple) : new Uint8Array(),
  );
  const arena = new Uint8Array(Buffer.concat(parts));
  const views = [new TupleView(), new TupleView()] as const;
  views[0].read(arena, 0, parts[0]!.length);
  views[1].read(arena, parts[0]!.length, arena.length);
  views[0].completeFrom(views[1]);
  const out = new ByteWriter(8);
  const { placeholder = false, schemaPrefix = null } = options;
  const encoder = new NativeRowEncoder(table, { placeholder, schemaPrefix });
  encoder.writeRow(out, arena, views[1], views[0], context(options.context));
  return Buffer.from(out.slice()).toString("utf8");
}

const one = (typeOid: number, typeName: string, text: string): unknown =>
  (JSON.parse(encode(relation("t", [["v", typeOid, typeName]]), [text])) as { v: unknown }).v;

// No NUL: Postgres text has none. No lone surrogates: they are no UTF-8.
const text = fc.string({ unit: "grapheme", maxLength: 60 }).filter((value) => !value.includes("\0"));
const control = fc.string({
  unit: fc.integer({ min: 1, max: 0x9f }).map((code) => String.fromCharCode(code)),
});

test("any row is valid JSON that decodes to the same value", () => {
  const table = relation("t", [
    ['na"me\n', 25, "text"],
    ["int8", 20, "bigint"],
    ["bool", 16, "boolean"],
    ["bytes", 17, "bytea"],
    ["json", 114, "json"],
    ["numeric", 1700, "numeric"],
  ]);
  const row = fc.record({
    text: fc.option(fc.oneof(text, control)),
    int8: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    bool: fc.boolean(),
    bytes: fc.uint8Array({ maxLength: 50 }),
    json: fc.json(),
    numeric: fc
      .tuple(fc.bigInt(), fc.nat(99))
      .map(([whole, part]) => `${whole}.${String(part).padStart(2, "0")}`),
  });
  fc.assert(
    fc.property(row, (value) => {
      const json = encode(table, [
        value.text,
        String(value.int8),
        value.bool ? "t" : "f",
        `\\x${Buffer.from(value.bytes).toString("hex")}`,
        value.json,
        value.numeric,
      ]);
      const parsed = JSON.parse(json) as Record<string, unknown>;
      expect(parsed['na"me\n']).toBe(value.text);
      expect(json).toContain(`"int8":${value.int8},`);
      expect(parsed.bool).toBe(value.bool);
      expect(Buffer.from(parsed.bytes as string, "base64").equals(Buffer.from(value.bytes))).toBe(true);
      expect(parsed.json).toEqual(JSON.parse(value.json));
      expect(parsed.numeric).toBe(value.numeric);
      expect(parsed._sm_version).toBe(1_700_000_000_000_001);
      expect(parsed._sm_deleted).toBe(false);
    }),
    { numRuns: 500 },
  );
});

type Nested = (string | null | Nested)[];
const arrayText = (value: Nested): string =>
  `{${value.map((each) => (each === null ? "NULL" : Array.isArray(each) ? arrayText(each) : `"${each.replace(/["\\]/g, "\\$&")}"`)).join(",")}}`;

test("any array of texts decodes to the same nested arrays", () => {
  const leaf = fc.option(text);
  const nested = fc.oneof(fc.array(leaf), fc.array(fc.array(leaf, { minLength: 1 }), { minLength: 1 }));
  fc.assert(
    fc.property(nested, (value) => {
      expect(one(1009, "text[]", arrayText(value as Nested))).toEqual(value);
      expect(one(1009, "text[]", `[0:${value.length - 1}]=${arrayText(value as Nested)}`)).toEqual(value);
    }),
  );
});

test("bytes that are no UTF-8 become replacement characters, not broken JSON", () => {
  const table = relation("t", [["v", 25, "text"]]);
  const arena = Uint8Array.of(0, 1, 0, 0, 0, 3, 0x61, 0xff, 0x22);
  const view = new TupleView();
  view.read(arena, 0, arena.length);
  const out = new ByteWriter();
  const encoder = new NativeRowEncoder(table, { placeholder: false });
  encoder.writeRow(out, arena, new TupleView(), view, context());
  expect((JSON.parse(Buffer.from(out.slice()).toString()) as { v: string }).v).toBe('a\ufffd"');
});

test("an unchanged TOASTed value comes from a full old tuple, else is left out or a placeholder", () => {
  const table = relation("t", [
    ["id", 23, "integer"],
    ["big", 25, "text"],
    ["doc", 3802, "jsonb"],
  ]);
  const after: TextTuple = ["1", unchanged, unchanged];
  const full = encode(table, after, { before: ["1", "old", "{}"] });
  expect(JSON.parse(full)).toMatchObject({ id: 1, big: "old", doc: {} });
  const left = JSON.parse(
    encode(table, after, { before: ["1", null, null], context: { oldIsKey: true } }),
  ) as object;
  expect(Object.keys(left)).toEqual(["id", "_sm_version", "_sm_deleted"]);
  const marked = JSON.parse(encode(table, after, { placeholder: true })) as object;
  expect(marked).toMatchObject({ big: "__debezium_unavailable_value" });
  expect(marked).not.toHaveProperty("doc");
});

test("the embedded schema describes the payload", () => {
  const table = relation("t", [
    ["id", 20, "bigint"],
    ["name", 25, "text"],
    ["doc", 3802, "jsonb"],
    ["tags", 1007, "integer[]"],
    ["bytes", 17, "bytea"],
  ]);
  const { schema, payload } = JSON.parse(
    encode(table, ["1", "a", '{"b":1}', "{1,NULL}", "\\x00"], { schemaPrefix: "hooks" }),
  ) as { schema: { name: string; fields: { field: string }[] }; payload: object };
  expect(payload).toEqual({
    id: 1,
    name: "a",
    doc: { b: 1 },
    tags: [1, null],
    bytes: "AA==",
    _sm_version: 1_700_000_000_000_001,
    _sm_deleted: false,
  });
  expect(schema.name).toBe("hooks.public.t.Value");
  expect(schema.fields.map(({ field }) => field)).toEqual(Object.keys(payload));
  expect(schema.fields).toEqual([
    { type: "int64", optional: false, field: "id" },
    { type: "string", optional: true, field: "name" },
    { type: "json", optional: true, field: "doc" },
    { type: "array", optional: true, items: { type: "int32", optional: true }, field: "tags" },
    { type: "bytes", optional: true, field: "bytes" },
    { type: "int64", optional: false, field: "_sm_version" },
    { type: "boolean", optional: false, field: "_sm_deleted" },
  ] as object[] as { field: string }[]);
  const removed = encode(table, null, {
    before: ["1", null, null, null, null],
    schemaPrefix: "hooks",
    context: { operation: "delete", oldIsKey: true },
  });
  expect(JSON.parse(removed)).toMatchObject({ schema, payload: { id: 1, name: null, _sm_deleted: true } });
});

// --- a real server's text of every type ---------------------------------------------------------

let server: PostgresServer;
let client: Client;
beforeAll(async () => {
  server = await PostgresServer.start();
  client = new Client(server.connection("postgres"));
  await client.connect();
  await client.query(`
    set datestyle = iso; set intervalstyle = postgres; set timezone = 'UTC'; set extra_float_digits = 3;
    create type mood as enum ('sad', 'null', 'so "so"');
    create type pair as (a int, b text)`);
}, 30_000);
afterAll(async () => {
  await client.end();
  await server[Symbol.asyncDispose]();
});

/** The value of an SQL expression as the webhook sends it. */
async function sent(expression: string): Promise<unknown> {
  const { rows } = await client.query<{ oid: number; name: string; text: string }>(
    `select pg_typeof(v)::oid::int as oid, format_type(pg_typeof(v)::oid, null) as name, v::text as text
       from (select ${expression} as v) x`,
  );
  const { oid, name, text: value } = rows[0]!;
  return one(oid, name, value);
}

const cases: readonly [expression: string, json: unknown][] = [
  ["1.5::float8", 1.5],
  ["'1e300'::float8", 1e300],
  ["'-0'::float8", -0],
  ["'NaN'::float8", "NaN"],
  ["'-Infinity'::float4", "-Infinity"],
  ["0.1::float4", 0.1],
  ["'NaN'::numeric", "NaN"],
  ["123456789012345678901234567890.10::numeric", "123456789012345678901234567890.10"],
  ["true", true],
  ["'2024-05-06 07:08:09.123456'::timestamp", "2024-05-06T07:08:09.123456"],
  ["'2024-05-06 07:08:09+02'::timestamptz", "2024-05-06T05:08:09Z"],
  ["'infinity'::timestamptz", "infinity"],
  ["'-infinity'::date", "-infinity"],
  ["'0044-03-15 BC'::date", "0044-03-15 BC"],
  ["'0044-03-15 01:02:03 BC'::timestamp", "0044-03-15 01:02:03 BC"],
  ["'12024-05-06'::date", "12024-05-06"],
  ["'24:00:00'::time", "24:00:00"],
  ["'07:08:09.5+05:30'::timetz", "07:08:09.5+05:30"],
  ["'07:08:09-08'::timetz", "07:08:09-08:00"],
  ["'1 year 2 mons -3 days 04:05:06.7'::interval", "1 year 2 mons -3 days +04:05:06.7"],
  ["'\\x00ff10'::bytea", "AP8Q"],
  ["'\\x'::bytea", ""],
  [`'{"a": [1, 1e400]}'::json`, { a: [1, Number.POSITIVE_INFINITY] }],
  [`'"x\\u0041"'::jsonb`, "xA"],
  ["'550e8400-e29b-41d4-a716-446655440000'::uuid", "550e8400-e29b-41d4-a716-446655440000"],
  ["'so \"so\"'::mood", 'so "so"'],
  ["row(1, 'a,\"b')::pair", '(1,"a,""b")'],
  ["'[1,5)'::int4range", "[1,5)"],
  ["'10.0.0.0/8'::cidr", "10.0.0.0/8"],
  ["point(1.5, -2)", "(1.5,-2)"],
  ["array[1, null, 3]", [1, null, 3]],
  ["'[2:3]={1,2}'::int[]", [1, 2]],
  [
    "array[[1.5, 2], [3, 4]]::numeric[]",
    [
      ["1.5", "2"],
      ["3", "4"],
    ],
  ],
  [
    "array['nude', 'NULL', null, 'a b', '', '{}', 'x\\y', '\"']",
    ["nude", "NULL", null, "a b", "", "{}", "x\\y", '"'],
  ],
  ["array['sad', 'null']::mood[]", ["sad", "null"]],
  ["array[row(1, 'x y')::pair]", ['(1,"x y")']],
  [`array['{"a":"}"}']::jsonb[]`, [{ a: "}" }]],
  ["array['\\x01'::bytea]", ["AQ=="]],
  ["array[box '(1,2),(3,4)', box '(5,6),(7,8)']", ["(3,4),(1,2)", "(7,8),(5,6)"]],
  ["array['2024-05-06 07:08:09+00'::timestamptz]", ["2024-05-06T07:08:09Z"]],
  ["array[true, false]", [true, false]],
  ["'{}'::int[]", []],
  ["'1 2 3'::int2vector", "1 2 3"],
  ["'a'::\"char\"", "a"],
  ["B'101'", "101"],
];

test.each(cases)("%s", async (expression, json) => {
  expect(await sent(expression)).toEqual(json);
});
