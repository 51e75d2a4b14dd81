// On a real server: two values have the same hash exactly where they print the same text, whether they are hashed by their texts or not.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Client } from "pg";
import { digestSql, scanValues, serverQuery } from "../../src/comparison/digest-sql.ts";
import { hashedForm } from "../../src/comparison/hashed-form.ts";
import type { HashingServer, RowComparison } from "../../src/comparison/row-comparison.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

let server: PostgresServer;
let client: Client;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  client = await server.connect("postgres");
  await client.query(`set timezone = 'UTC'; set extra_float_digits = 3;
    create domain whole as int; create type mood as enum ('sad', 'ok');
    create collation any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create type pair as (a int, b text);
    create function pair_text(pair) returns text language sql return 'same'; create cast (pair as text) with function pair_text(pair)`);
});
afterAll(async () => {
  await client.end();
  await server[Symbol.asyncDispose]();
});

type Value = string | null;
type Pair = readonly [Value, Value];

const scan = { kind: "rows", buckets: 64, among: Array.from({ length: 64 }, (_, at) => at) } as const;

async function comparisonOf(isEncoded: boolean): Promise<RowComparison> {
  const { rows } = await client.query<{ oid: number }>(
    "select atttypid::int8::int4 as oid from pg_attribute where attrelid = 'v'::regclass and attname = 'a'",
  );
  const { oid } = rows[0]!;
  const columns = [
    { number: 1, readAs: null, form: { kind: "value", isInteger: true } },
    { number: 2, readAs: null, form: hashedForm(oid, oid) },
  ] as const;
  return { columns, key: [1], areEqualRowsOne: false, isEncoded, sample: null };
}

/** The hashes of rows whose second column is `value`, in their order. */
async function hashes(comparison: RowComparison, value: "a" | "b"): Promise<readonly string[]> {
  for (const setting of scanValues(scan))
    await client.query("select set_config($1, $2, false)", [setting.name, setting.value]);
  const sql = digestSql(comparison, scan, {
    from: "v",
    value: ({ number }) => (number === 1 ? "id" : value),
    hasWantedKey: "true",
  });
  const { rows } = await client.query<{ h0: string; h1: string; k0: string }>(sql);
  return rows.toSorted((a, b) => Number(a.k0) - Number(b.k0)).map(({ h0, h1 }) => `${h0} ${h1}`);
}

/** For each pair whether texts and hashes are equal. */
async function compared(type: string, pairs: readonly Pair[], isEncoded = false) {
  await client.query(`drop table if exists v; create table v (id int, a ${type}, b ${type})`);
  const read = (at: number) => `(pair.value->>${at})::${type.replace(/ collate .*/, "")}`;
  await client.query(
    `insert into v select place, ${read(0)}, ${read(1)} from json_array_elements($1::json) with ordinality as pair(value, place)`,
    [JSON.stringify(pairs)],
  );
  const { rows: texts } = await client.query<{ a: string; b: string; same: boolean }>(
    "select format('%s', a) as a, format('%s', b) as b, format('%s', a) = format('%s', b) collate \"C\" and num_nulls(a) = num_nulls(b) as same from v order by id",
  );
  const comparison = await comparisonOf(isEncoded);
  const [a, b] = [await hashes(comparison, "a"), await hashes(comparison, "b")];
  return texts.map((text, at) => ({ ...text, hashedSame: a[at] === b[at] }));
}

async function expectAgreed(type: string, pairs: readonly Pair[], isEncoded = false): Promise<void> {
  const found = await compared(type, pairs, isEncoded);
  expect(found.filter(({ same, hashedSame }) => same !== hashedSame)).toEqual([]);
}

/** Values that careless hashes take for one another, though their texts differ. */
const different: readonly (readonly [string, ...Pair])[] = [
  ["int8", "1", "4294967296"],
  ["int8", "-1", "-4294967297"],
  ["timestamp", "2000-01-01 00:00:00.000001", "2000-01-01 01:11:34.967296"],
  ["timestamptz", "2000-01-01 00:00:00.000001", "2000-01-01 01:11:34.967296"],
  ["timestamptz", "infinity", "-infinity"],
  ["timestamp", "0044-03-15 12:00:00", "0044-03-15 12:00:00 BC"],
  ["time", "00:00:00.000001", "01:11:34.967296"],
  ["time", "00:00:00", "24:00:00"],
  ["date", "infinity", "-infinity"],
  ["date", "0001-01-01", "0001-01-01 BC"],
  ["numeric", "1.0", "1.00"],
  ["numeric", "0", "0.0"],
  ["numeric", "NaN", "Infinity"],
  ["numeric", "Infinity", "-Infinity"],
  ["float8", "0", "-0"],
  ["float4", "0", "-0"],
  ["char(4)", "a", "ab"],
  ["interval", "1 mon", "30 days"],
  ["timetz", "10:00+00", "11:00+01"],
  ["text", "", null],
  ["text", "a", "a "],
  ["text", "a", "A"],
  ["varchar", "", null],
  ["bytea", "", null],
  ["bytea", "\\x00", "\\x0000"],
  ["int4", "0", null],
  ["bool", "f", null],
  ["pair", "(1,a)", "(2,a)"],
  ["pair", "(,)", null],
  ["text[]", "{}", "{NULL}"],
  ["text collate any_case", "a", "A"],
  ["varchar collate any_case", "a", "A"],
];

describe.each([false, true])("encoded: %p", (isEncoded) => {
  test.each(different)("%s: %p is not %p", async (type, one, other) => {
    expect(await compared(type, [[one, other]], isEncoded)).toMatchObject([
      { same: false, hashedSame: false },
    ]);
  });

  test.each([
    ["char(4)", "a", "a  "],
    ["numeric", "-0.0", "0.0"],
    ["uuid", "00112233-4455-6677-8899-aabbccddeeff", "{00112233445566778899AABBCCDDEEFF}"],
    ["timestamptz", "2020-01-01 00:00:00+00", "2020-01-01 05:00:00+05"],
    ["text", null, null],
  ] as const)("%s: %p is %p", async (type, one, other) => {
    expect(await compared(type, [[one, other]], isEncoded)).toMatchObject([{ same: true, hashedSame: true }]);
  });
});

const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(..."0123459"), minLength, maxLength });
const integer = (bits: bigint) => fc.bigInt(-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n).map(String);
const bounded = (to: number, from = 0) =>
  fc.integer({ min: from, max: to }).map((n) => String(n).padStart(2, "0"));
const time = fc
  .tuple(bounded(23), bounded(59), bounded(59), digits(0, 6))
  .map(([h, m, s, part]) => `${h}:${m}:${s}${part && `.${part}`}`);
const day = fc
  .tuple(fc.integer({ min: 1, max: 4700 }), bounded(12, 1), bounded(28, 1))
  .map(([year, month, of]) => `${String(year).padStart(4, "0")}-${month}-${of}`);
const era = fc.constantFrom("", " BC");
const infinite = fc.constantFrom("infinity", "-infinity");
const stamp = fc.oneof(
  fc.tuple(day, time, era).map(([on, at, which]) => `${on} ${at}${which}`),
  infinite,
);
const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(..."01ef"), minLength: length, maxLength: length });
const decimal = fc
  .tuple(fc.constantFrom("", "-"), digits(1, 30), digits(0, 20))
  .map(([sign, whole, part]) => `${sign}${whole}${part && `.${part}`}`);
const text = fc.string({
  unit: fc.constantFrom("a", "A", " ", "ü", "ß", '"', "\\", ",", "(", "é", "e\u0301", "𝄞"),
  maxLength: 4,
});

/** Of some types that are hashed without their texts, and of some that are not. */
const kinds: Readonly<Record<string, fc.Arbitrary<string>>> = {
  bool: fc.constantFrom("t", "f"),
  bytea: fc
    .integer({ min: 0, max: 3 })
    .chain((bytes) => hex(bytes * 2))
    .map((bytes) => `\\x${bytes}`),
  int2: integer(16n),
  int4: integer(32n),
  int8: fc.oneof(integer(64n), integer(34n)),
  oid: fc.bigInt(0n, 2n ** 32n - 1n).map(String),
  text,
  varchar: text,
  "text collate any_case": text,
  date: fc.oneof(
    fc.tuple(day, era).map((parts) => parts.join("")),
    infinite,
  ),
  time: fc.oneof(time, fc.constant("24:00:00")),
  timestamp: stamp,
  timestamptz: stamp,
  numeric: fc.oneof(
    decimal,
    fc.constantFrom(
      "NaN",
      "Infinity",
      "-Infinity",
      "1e100",
      "1e-100",
      "-0",
      "0.000",
      "10000",
      "1e4",
      "0.0001",
    ),
  ),
  uuid: hex(32),
  whole: integer(32n),
  mood: fc.constantFrom("sad", "ok"),
  float8: fc.oneof(fc.double().map(String), fc.constantFrom("-0", "NaN", "1e-320", "1", "1.0")),
  "char(3)": fc.string({ unit: fc.constantFrom("a", " ", "ü"), maxLength: 3 }),
  interval: fc
    .tuple(fc.integer({ min: -40, max: 40 }), fc.integer({ min: -40, max: 40 }))
    .map(([m, d]) => `${m} mon ${d} days`),
  jsonb: fc.json({ maxDepth: 1, stringUnit: text }),
  "text[]": fc
    .array(fc.constantFrom("a", "NULL", '""', '"\\""'), { maxLength: 3 })
    .map((of) => `{${of.join()}}`),
};

/** Pairs whose values are the same rather often, and at times nearly. */
function pairOf(values: fc.Arbitrary<string>): fc.Arbitrary<Pair> {
  const value = fc.option(values, { freq: 9 });
  return fc.oneof(
    fc.tuple(value, value),
    value.map((one): Pair => [one, one]),
  );
}

test.each(Object.keys(kinds))("%s: texts are equal where hashes are", async (type) => {
  const pairs = fc.array(pairOf(kinds[type]!), { minLength: 20, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(pairs, fc.boolean(), (of, isEncoded) => expectAgreed(type, of, isEncoded)),
    { numRuns: 12 },
  );
});

test("hashes have all of their bits: 32 of them would be equal by chance among so many rows", async () => {
  await client.query(
    "drop table if exists v; create table v as select g as id, g as a from generate_series(1, 400000) g",
  );
  const comparison = await comparisonOf(false);
  const sql = digestSql(comparison, scan, {
    from: "v",
    value: ({ number }) => (number === 1 ? "id" : "a"),
    hasWantedKey: "true",
  });
  const { rows } = await client.query(
    `select count(distinct h0)::int as h0, count(distinct h1)::int as h1 from (${sql}) hashes`,
  );
  expect(rows).toEqual([{ h0: 400_000, h1: 400_000 }]);
});

test("two rows of a bucket that swap a value differ", async () => {
  const digests = async (values: string) => {
    await client.query(
      `drop table if exists v; create table v as select * from (values ${values}) as of(id, a)`,
    );
    const sql = digestSql(
      await comparisonOf(false),
      { kind: "buckets", buckets: 64, range: null },
      { from: "v", value: ({ number }) => (number === 1 ? "id" : "a"), hasWantedKey: "true" },
    );
    return (await client.query<{ count: string }>(sql)).rows;
  };
  const [before, after] = [await digests("(8, 1), (9, 2)"), await digests("(8, 2), (9, 1)")];
  expect(before).toMatchObject([{ count: "2" }]);
  expect(after).toMatchObject([{ count: "2" }]);
  expect(after).not.toEqual(before);
});

test("a table without columns, and one of the most columns", async () => {
  const none: RowComparison = {
    columns: [],
    key: [],
    areEqualRowsOne: false,
    isEncoded: false,
    sample: null,
  };
  const one = { from: "(values (1), (2)) as v", value: () => "null::int8", hasWantedKey: "true" };
  const buckets = { kind: "buckets", buckets: 64, range: null } as const;
  expect((await client.query(digestSql(none, buckets, one))).rows).toMatchObject([{ count: "2" }]);
  const columns = Array.from({ length: 1600 }, (_, at) => ({
    number: at + 1,
    readAs: null,
    form: at % 2 ? null : hashedForm(20, 20),
  }));
  expect((await client.query(digestSql({ ...none, columns }, buckets, one))).rows).toMatchObject([
    { count: "2" },
  ]);
});

test("the oldest version and the newest one hash alike", async () => {
  const probes: HashingServer[] = [];
  for (const major of [14, 18] as const) {
    await using other = await PostgresServer.start({ major, settings: { fsync: "off" } });
    probes.push(...(await other.query<HashingServer>(serverQuery)));
  }
  expect(probes[0]).toEqual(probes[1]!);
  expect(probes[0]).toMatchObject({ isUtf8: true });
});
