// The Debezium envelope and its type mapping, against a real server's text and the values that Debezium's
// documentation gives.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { Client } from "pg";
import { lsn } from "../../../../src/change/lsn.ts";
import type { Relation } from "../../../../src/change/relation.ts";
import type { DataTypeOptions } from "../../../../src/sink/format/debezium/debezium-column.ts";
import {
  DebeziumRowEncoder,
  type DebeziumRowOptions,
} from "../../../../src/sink/format/debezium/debezium-row.ts";
import type { RowContext } from "../../../../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { relation, type TextTuple, tupleBytes, unchanged } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

const modes: DataTypeOptions = {
  binary_handling_mode: "Bytes",
  decimal_handling_mode: "Precise",
  time_precision_mode: "Adaptive",
};
const options: DebeziumRowOptions = {
  version: "1.2.3",
  name: "orders",
  database: "shop",
  dataTypes: modes,
  includeBefore: true,
  embedSchema: false,
  placeholder: false,
  now: () => 1_700_000_001_234,
};
const context: RowContext = {
  operation: "create",
  version: 1,
  oldIsKey: false,
  commitTimeUs: 1_700_000_000_123_456,
  commitLsn: lsn(24_023_128n),
  place: 24_023_000,
  totalOrder: 0,
  tableOrder: 0,
  xid: 571,
  snapshot: false,
};

function encode(
  table: Relation,
  tuples: { before?: TextTuple; after?: TextTuple },
  change: { row?: Partial<RowContext>; options?: Partial<DebeziumRowOptions> } = {},
) {
  const parts = [tuples.before, tuples.after].map((tuple) => (tuple ? tupleBytes(tuple) : new Uint8Array()));
  const arena = new Uint8Array(Buffer.concat(parts));
  const before = new TupleView();
  const after = new TupleView();
  before.read(arena, 0, parts[0]!.length);
  after.read(arena, parts[0]!.length, arena.length);
  const out = new ByteWriter();
  const encoder = new DebeziumRowEncoder(table, { ...options, ...change.options });
  encoder.writeRow(out, arena, before, after, { ...context, ...change.row });
  return JSON.parse(Buffer.from(out.slice()).toString("utf8"));
}

const users = relation("users", [
  ["id", 23, "integer"],
  ["name", 25, "text"],
]);

test("the envelope, field for field and in order", () => {
  const event = encode(users, { after: ["1", "Anne"] });
  expect(event).toEqual({
    before: null,
    after: { id: 1, name: "Anne" },
    source: {
      version: "1.2.3",
      connector: "postgresql",
      name: "orders",
      ts_ms: 1_700_000_000_123,
      ts_us: 1_700_000_000_123_456,
      ts_ns: 1_700_000_000_123_456_000,
      snapshot: "false",
      db: "shop",
      sequence: '["24023128","24023000"]',
      schema: "public",
      table: "users",
      txId: 571,
      lsn: 24023000,
      xmin: null,
    },
    transaction: null,
    op: "c",
    ts_ms: 1_700_000_001_234,
    ts_us: 1_700_000_001_234_000,
    ts_ns: 1_700_000_001_234_000_000,
  });
  expect(Object.keys(event)).toEqual([
    "before",
    "after",
    "source",
    "transaction",
    "op",
    "ts_ms",
    "ts_us",
    "ts_ns",
  ]);
  expect(Object.keys(event.source).join()).toBe(
    "version,connector,name,ts_ms,ts_us,ts_ns,snapshot,db,sequence,schema,table,txId,lsn,xmin",
  );
});

test("before and after of every operation", () => {
  const short = (event: { before: unknown; after: unknown; op: string }) => [
    event.op,
    event.before,
    event.after,
  ];
  const key = { oldIsKey: true };
  const update = { operation: "update" as const };
  const remove = { operation: "delete" as const };
  expect(short(encode(users, { after: ["1", "b"] }, { row: update }))).toEqual([
    "u",
    null,
    { id: 1, name: "b" },
  ]);
  const full = { before: ["1", "a"], after: ["1", "b"] };
  expect(short(encode(users, full, { row: update }))).toEqual([
    "u",
    { id: 1, name: "a" },
    { id: 1, name: "b" },
  ]);
  const without = { row: update, options: { includeBefore: false } };
  expect(short(encode(users, full, without))).toEqual(["u", null, { id: 1, name: "b" }]);
  expect(short(encode(users, { before: ["1", null] }, { row: { ...remove, ...key } }))).toEqual([
    "d",
    { id: 1, name: null },
    null,
  ]);
  expect(short(encode(users, {}, { row: { operation: "truncate" } }))).toEqual(["t", null, null]);
  const read = encode(users, { after: ["1", "a"] }, { row: { operation: "read", snapshot: true, place: 0 } });
  expect(short(read)).toEqual(["r", null, { id: 1, name: "a" }]);
  expect(read.source).toMatchObject({ snapshot: "true", txId: null, lsn: 24_023_128 });
});

test("an unchanged TOASTed value is left out, or a placeholder", () => {
  const tuples: { after: TextTuple } = { after: ["1", unchanged] };
  expect(encode(users, tuples, { row: { operation: "update" } }).after).toEqual({ id: 1 });
  const placed = encode(users, tuples, { row: { operation: "update" }, options: { placeholder: true } });
  expect(placed.after).toEqual({ id: 1, name: "__debezium_unavailable_value" });
});

test("the embedded schema describes the payload", () => {
  const table = relation("t", [
    ["id", 23, "integer"],
    ["n", 1700, "numeric(10,2)"],
    ["tags", 1009, "text[]"],
  ]);
  const typed = { ...table, columns: table.columns.map((c, i) => (i === 1 ? { ...c, typmod: 655_366 } : c)) };
  const event = encode(typed, { after: ["1", "12.34", "{a}"] }, { options: { embedSchema: true } });
  expect(event.payload.after).toEqual({ id: 1, n: "BNI=", tags: ["a"] });
  expect(event.schema.name).toBe("orders.public.t.Envelope");
  expect(event.schema.fields.map(({ field }: { field: string }) => field)).toEqual(
    Object.keys(event.payload),
  );
  expect(event.schema.fields[1]).toEqual({
    type: "struct",
    optional: true,
    name: "orders.public.t.Value",
    field: "after",
    fields: [
      { type: "int32", optional: false, field: "id" },
      {
        type: "bytes",
        optional: true,
        name: "org.apache.kafka.connect.data.Decimal",
        version: 1,
        parameters: { scale: "2", "connect.decimal.precision": "10" },
        field: "n",
      },
      { type: "array", optional: true, items: { type: "string", optional: true }, field: "tags" },
    ],
  });
  const sourceFields = event.schema.fields[2].fields.map(({ field }: { field: string }) => field);
  expect(sourceFields).toEqual(Object.keys(event.payload.source));
});

// --- types ---------------------------------------------------------------------------------------

let server: PostgresServer;
let client: Client;
beforeAll(async () => {
  server = await PostgresServer.start();
  client = new Client(server.connection("postgres"));
  await client.connect();
  await client.query(`
    set datestyle = iso; set intervalstyle = postgres; set timezone = 'UTC'; set extra_float_digits = 3;
    set lc_monetary = 'C'; create extension hstore`);
}, 30_000);
afterAll(async () => {
  await client.end();
  await server[Symbol.asyncDispose]();
});

/** A column of `type` that holds `literal`, as it arrives under `mode`. */
async function value(type: string, literal: string, mode: Partial<DataTypeOptions> = {}): Promise<unknown> {
  await client.query(`drop table if exists probe; create table probe (v ${type})`);
  await client.query(`insert into probe select $1::text::${type}`, [literal]);
  const { rows } = await client.query<{ oid: number; typmod: number; name: string; text: string }>(
    `select atttypid::int as oid, atttypmod as typmod, format_type(atttypid, atttypmod) as name,
            (select v::text from probe) as text
       from pg_attribute where attrelid = 'probe'::regclass and attnum = 1`,
  );
  const { oid, typmod, name, text } = rows[0]!;
  const table = relation("probe", [["v", oid, name]], { typmod });
  const dataTypes = { ...modes, ...mode };
  return encode(table, { after: [text] }, { options: { dataTypes } }).after.v;
}

type Case = readonly [type: string, literal: string, expected: unknown, mode?: Partial<DataTypeOptions>];
const time = (time_precision_mode: DataTypeOptions["time_precision_mode"]) => ({ time_precision_mode });
const decimal = (decimal_handling_mode: DataTypeOptions["decimal_handling_mode"]) => ({
  decimal_handling_mode,
});
const binary = (binary_handling_mode: DataTypeOptions["binary_handling_mode"]) => ({ binary_handling_mode });

const cases: readonly Case[] = [
  ["bool", "t", true],
  ["bit(1)", "1", true],
  ["bit(10)", "1000000011", "AwI="],
  ["varbit", "101", "BQ=="],
  ["int8", "9007199254740991", 9007199254740991],
  ["date", "2017-09-15", 17424],
  ["date", "1969-12-31", -1],
  ["date", "infinity", 2147483647],
  ["date", "0001-01-01 BC", -719528],
  ["date", "2017-09-15", "2017-09-15Z", time("IsoString")],
  ["date", "2017-09-15", 17424, time("Connect")],
  ["time", "10:15:30.123456", 36930123456],
  ["time(3)", "10:15:30.123", 36930123],
  ["time(3)", "10:15:30.123", 36930123000, time("AdaptiveTimeMicroseconds")],
  ["time", "10:15:30.123456", 36930123, time("Connect")],
  ["time", "10:15:30.123456", "10:15:30.123456Z", time("IsoString")],
  ["time", "10:15:30.123456", 36930123456, time("Microseconds")],
  ["time", "10:15:30.123456", 36930123456000, time("Nanoseconds")],
  ["timestamp", "2018-06-20 15:13:16.945104", 1529507596945104],
  ["timestamp(3)", "2018-06-20 15:13:16.945", 1529507596945],
  ["timestamp", "1969-12-31 23:59:59.999999", -1],
  ["timestamp(3)", "1969-12-31 23:59:59.999", -1],
  ["timestamp", "1969-12-31 23:59:59.999999", -1, time("Connect")],
  ["timestamp", "2018-06-20 15:13:16.945104", 1529507596945, time("Connect")],
  ["timestamp(3)", "2018-06-20 15:13:16.945", 1529507596945000, time("Microseconds")],
  ["timestamp", "2018-06-20 15:13:16.9", "2018-06-20T15:13:16.9Z", time("IsoString")],
  ["timestamptz", "2018-06-20 15:13:16.945104+02", "2018-06-20T13:13:16.945104Z"],
  ["timetz", "13:51:02+02:00", "11:51:02Z"],
  ["timetz", "00:30:00+01:00", "23:30:00Z"],
  ["timestamptz", "0044-03-15 12:00:00.5 BC", "-0043-03-15T12:00:00.5Z"],
  ["timestamptz", "12024-05-06 07:08:09", "+12024-05-06T07:08:09Z"],
  ["timestamptz", "-infinity", "-infinity"],
  ["date", "0001-12-31 BC", "0000-12-31Z", time("IsoString")],
  ["timestamp", "294276-12-31 23:59:59", "+294276-12-31T23:59:59Z", time("IsoString")],
  ["hstore[]", '{"a=>1",NULL}', ['{"a":"1"}', null]],
  ["interval", "1 year 2 mons 3 days 04:05:06.789", 37091106789000],
  ["interval", "-00:00:01", -1000000],
  ["numeric(5,2)", "1.10", "bg=="],
  ["numeric(5,2)", "-1.10", "kg=="],
  ["numeric(5,2)", "2.56", "AQA="],
  ["numeric", "1.10", { scale: 2, value: "bg==" }],
  ["numeric", "NaN", "NaN"],
  ["numeric(5,2)", "1.10", "1.10", decimal("String")],
  ["numeric(5,2)", "1.10", 1.1, decimal("Double")],
  ["numeric", "NaN", "NaN", decimal("Double")],
  ["money", "-1234.50", "/h3G"],
  ["money", "1234.50", "1234.50", decimal("String")],
  ["bytea", "\\xfbff00", "+/8A"],
  ["bytea", "\\xfbff00", "+/8A", binary("Base64")],
  ["bytea", "\\xfbff00", "-_8A", binary("Base64UrlSafe")],
  ["bytea", "\\xfbff00", "fbff00", binary("Hex")],
  ["jsonb", '{"a": 1}', '{"a": 1}'],
  ["point", "(1,-2.5)", { x: 1, y: -2.5, wkb: "AQEAAAAAAAAAAADwPwAAAAAAAATA", srid: null }],
  ["hstore", 'a=>1, "b \\"x"=>NULL', '{"a":"1","b \\"x":null}'],
  ["numeric(5,2)[]", "{1.10,NULL}", ["bg==", null]],
  ["date[]", "{2017-09-15}", [17424]],
];

test.each(cases.map(([type, literal, expected, mode]) => [type, literal, expected, mode ?? {}] as const))(
  "%s %s is %j under %j",
  async (type, literal, expected, mode) => {
    expect(await value(type, literal, mode)).toEqual(expected);
  },
);

test("infinite timestamps are the driver's numbers", async () => {
  expect(await value("timestamp", "infinity")).toBe(Number(9_223_372_036_825_200_000n));
  expect(await value("timestamp", "-infinity")).toBe(Number(-9_223_372_036_832_400_000n));
});
