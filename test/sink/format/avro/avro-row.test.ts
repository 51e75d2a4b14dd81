// Rows and keys in Avro, read by another implementation: the envelope, what is absent, and any number.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { packedFlag } from "../../../../src/change/packed-hex.ts";
import type { Relation } from "../../../../src/change/relation.ts";
import { type AvroFormat, avroEncoding } from "../../../../src/sink/format/avro/avro-encoding.ts";
import type { RowContext } from "../../../../src/sink/format/row-encoder.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { bodyChunks } from "../../../../src/sink/format/values/message-body.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { avroType, decodeMessage } from "../../../support/rows/avro-decoding.ts";
import { encodedKey, encodedRow, sampleContext } from "../../../support/rows/avro-rows.ts";
import { relation, type TextTuple, unchanged } from "../../../support/rows/batch-fixture.ts";

type Modes = (AvroFormat & { kind: "debezium" })["options"]["dataTypes"];
const modes: Modes = {
  binary_handling_mode: "Bytes",
  decimal_handling_mode: "Precise",
  time_precision_mode: "Adaptive",
};
const debezium = (dataTypes: Partial<Modes> = {}, includeBefore = true): AvroFormat => ({
  kind: "debezium",
  options: {
    version: "1.2.3",
    name: "orders",
    database: "shop",
    includeBefore,
    now: () => 1_700_000_001_234,
    dataTypes: { ...modes, ...dataTypes },
  },
});
const native: AvroFormat = { kind: "native", schemaPrefix: "orders" };

type Row = Record<string, unknown>;

function sent(
  table: Relation,
  format: AvroFormat,
  tuples: { before?: TextTuple; after?: TextTuple },
  context: Partial<RowContext> = {},
): Row {
  const encoding = avroEncoding(table, format);
  const bytes = encodedRow(encoding.encoder(0x01020304), tuples, context);
  const { id, value } = decodeMessage(bytes, avroType(encoding.value.text));
  expect(id).toBe(0x01020304);
  return value as Row;
}

const users = relation("users", [
  ["id", 23, "integer"],
  ["name", 25, "text"],
]);

test("the envelope, field for field", () => {
  const event = sent(users, debezium(), { after: ["1", "Anne"] }, { totalOrder: 3, tableOrder: 2 });
  expect(event).toEqual({
    before: null,
    after: { id: 1, name: "Anne" },
    source: {
      version: "1.2.3",
      connector: "postgresql",
      name: "orders",
      ts_ms: 1_700_000_000_123n,
      ts_us: 1_700_000_000_123_456n,
      ts_ns: 1_700_000_000_123_456_000n,
      snapshot: "false",
      db: "shop",
      sequence: '["24023128","24023000"]',
      schema: "public",
      table: "users",
      txId: 571n,
      lsn: 24_023_000n,
      xmin: null,
    },
    transaction: { id: "571:24023128", total_order: 3n, data_collection_order: 2n },
    op: "c",
    ts_ms: 1_700_000_001_234n,
    ts_us: 1_700_000_001_234_000n,
    ts_ns: 1_700_000_001_234_000_000n,
  });
});

test("before and after of every operation", () => {
  const short = (format: AvroFormat, tuples: object, context: Partial<RowContext>) => {
    const { op, before, after } = sent(users, format, tuples, context);
    return [op, before, after];
  };
  const full = { before: ["1", "a"], after: ["1", "b"] };
  const [old, now] = [
    { id: 1, name: "a" },
    { id: 1, name: "b" },
  ];
  expect(short(debezium(), full, { operation: "update" })).toEqual(["u", old, now]);
  expect(short(debezium({}, false), full, { operation: "update" })).toEqual(["u", null, now]);
  expect(short(debezium(), full, { operation: "update", oldIsKey: true })).toEqual(["u", null, now]);
  const key = { before: ["1", null] };
  expect(short(debezium({}, false), key, { operation: "delete", oldIsKey: true })).toEqual([
    ...["d", { id: 1, name: null }, null],
  ]);
  expect(short(debezium(), {}, { operation: "truncate" })).toEqual(["t", null, null]);
  const read = sent(
    users,
    debezium(),
    { after: ["1", "a"] },
    { operation: "read", snapshot: true, place: 0 },
  );
  expect([read.op, read.source]).toMatchObject(["r", { snapshot: "true", txId: null, lsn: 24_023_128n }]);
  expect((read.source as Row).sequence).toBe('["24023128","24023128"]');
});

test("one encoder follows transactions and the clock", () => {
  let nowMs = 1;
  const options = { ...(debezium() as AvroFormat & { kind: "debezium" }).options, now: () => nowMs };
  const encoding = avroEncoding(users, { kind: "debezium", options });
  const encoder = encoding.encoder(1);
  const type = avroType(encoding.value.text);
  const next = (context: Partial<RowContext>) => {
    const { source, ts_ms } = decodeMessage(encodedRow(encoder, { after: ["1", "a"] }, context), type)
      .value as Row & { source: Row };
    return [source.ts_us, source.txId, source.snapshot, source.lsn, ts_ms];
  };
  expect(next({ commitTimeUs: 5_000, xid: 1 })).toEqual([5_000n, 1n, "false", 24_023_000n, 1n]);
  nowMs = 2;
  expect(next({ commitTimeUs: 6_000, xid: 2, place: 7 })).toEqual([6_000n, 2n, "false", 7n, 2n]);
  const commitLsn = (2n ** 63n - 1n) as RowContext["commitLsn"];
  expect(next({ commitTimeUs: 6_000, xid: 2, commitLsn, place: 0 })).toEqual([
    ...[6_000n, 2n, "false", 2n ** 63n - 1n, 2n],
  ]);
  expect(next({ commitTimeUs: 6_000, snapshot: true, commitLsn, place: 0 })[1]).toBeNull();
});

test("a native row, and its delete", () => {
  expect(sent(users, native, { after: ["1", "Anne"] })).toEqual({
    id: 1,
    name: "Anne",
    _sm_version: 1_700_000_000_000_001n,
    _sm_deleted: false,
  });
  const context = { operation: "delete", oldIsKey: true, version: 2 ** 53 - 1 } as const;
  expect(sent(users, native, { before: ["1", null] }, context)).toEqual({
    id: 1,
    name: null,
    _sm_version: 2n ** 53n - 1n,
    _sm_deleted: true,
  });
});

const large = relation("large", [
  ["id", 23, "integer"],
  ["text", 25, "text"],
  ["bytes", 17, "bytea"],
  ["doc", 3802, "jsonb"],
  ["tags", 1009, "text[]"],
  ["n", 1700, "numeric"],
  ["ints", 1007, "integer[]"],
]);

test("an unchanged TOASTed value is the placeholder where the field can hold it, else null", () => {
  const after: TextTuple = ["1", unchanged, unchanged, unchanged, unchanged, unchanged, unchanged];
  const text = "__debezium_unavailable_value";
  const placed = { id: 1, text, bytes: Buffer.from(text), doc: text, tags: [text], ints: null };
  const event = sent(large, debezium(), { after }, { operation: "update" });
  expect(event.after).toEqual({ ...placed, n: null });
  expect(sent(large, native, { after })).toMatchObject({ ...placed, n: text });
  const before: TextTuple = ["1", "old", "\\x01", "{}", "{a}", "1.5", "{1}"];
  expect(sent(large, native, { before, after })).toMatchObject({
    id: 1,
    text: "old",
    doc: "{}",
    tags: ["a"],
    n: "1.5",
    ints: [1],
  });
});

test("what a type cannot hold is null, and refused in a key", () => {
  const numbers = relation("numbers", [
    ["id", 1700, "numeric"],
    ["n", 1700, "numeric"],
    ["at", 1114, "timestamp without time zone"],
  ]);
  const format = debezium({ time_precision_mode: "Nanoseconds" });
  const event = sent(numbers, format, { after: ["1", "NaN", "2262-04-12 00:00:00"] });
  expect(event.after).toEqual({ id: { scale: 0, value: Buffer.of(1) }, n: null, at: null });
  const unwritable = () => sent(numbers, format, { after: ["NaN", "1", null] });
  expect(unwritable).toThrow(
    'public.numbers: the key\'s column "id" has a value that its Avro type cannot hold',
  );
  // No retry helps: a run that tried again for ever would tell nobody.
  expect(unwritable).toThrow(expect.objectContaining({ code: "kafka_key_unwritable", retry: "permanent" }));
  expect(() => sent(numbers, format, { after: [null, "1", null] })).toThrow("has no value");
  expect(
    sent(numbers, debezium({ decimal_handling_mode: "String" }), { after: ["NaN", "1", null] }).after,
  ).toEqual({ id: "NaN", n: "1", at: null });
});

test("floats that JSON has no number for are floats", () => {
  const table = relation("f", [
    ["id", 23, "integer"],
    ["f4", 700, "real"],
    ["f8", 701, "double precision"],
  ]);
  for (const word of ["NaN", "Infinity", "-Infinity"]) {
    expect(sent(table, native, { after: ["1", word, word] })).toMatchObject({
      f4: Number(word),
      f8: Number(word),
    });
  }
});

// --- any value --------------------------------------------------------------------------------

const text = fc.string({ unit: "grapheme", maxLength: 200 }).filter((value) => !value.includes("\0"));
const digits = fc
  .tuple(fc.boolean(), fc.stringMatching(/^(0|[1-9][0-9]{0,29})([.][0-9]{1,25})?$/))
  .map(([isNegative, number]) => (isNegative ? `-${number}` : number));

test("any row is the same row", () => {
  const table = relation("any", [
    ["int8", 20, "bigint"],
    ["int4", 23, "integer"],
    ["text", 25, "text"],
    ["f8", 701, "double precision"],
    ["f4", 700, "real"],
    ["bytes", 17, "bytea"],
    ["n", 1700, "numeric"],
    ["flag", 16, "boolean"],
  ]);
  const row = fc.record({
    int8: fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.bigInt({ min: -300n, max: 300n }),
    ),
    int4: fc.oneof(fc.integer(), fc.integer({ min: -200, max: 200 })),
    text: fc.option(text),
    f8: fc.double({ noNaN: true }),
    f4: fc.float({ noNaN: true }),
    bytes: fc.uint8Array({ maxLength: 200 }),
    n: digits,
    flag: fc.boolean(),
  });
  fc.assert(
    fc.property(row, ({ int8, int4, text: value, f8, f4, bytes, n, flag }) => {
      const isMinusZero = (number: number) => Object.is(number, -0);
      const float = (number: number) => (isMinusZero(number) ? "-0" : String(number));
      const hex = `\\x${Buffer.from(bytes).toString("hex")}`;
      const after = [String(int8), String(int4), value, float(f8), float(f4), hex, n, flag ? "t" : "f"];
      const decoded = sent(table, native, { after });
      const common = { int8, int4, text: value, f8, f4, bytes: Buffer.from(bytes), flag };
      expect(decoded).toMatchObject({ ...common, n });
      const wire = sent(table, debezium(), { after }).after as Row & { n: { scale: number; value: Buffer } };
      expect(wire).toMatchObject(common);
      const unscaled = BigInt.asIntN(wire.n.value.length * 8, BigInt(`0x${wire.n.value.toString("hex")}`));
      expect([unscaled, wire.n.scale]).toEqual([BigInt(n.replace(".", "")), n.split(".")[1]?.length ?? 0]);
    }),
    { numRuns: 1000 },
  );
});

test("any moment is the same moment", () => {
  const table = relation("times", [
    ["id", 23, "integer"],
    ["us", 1114, "timestamp without time zone"],
    ["day", 1082, "date"],
    ["time", 1083, "time without time zone"],
    ["tz", 1184, "timestamp with time zone"],
  ]);
  const moment = fc.date({ min: new Date("0001-01-01"), max: new Date("9999-01-01"), noInvalidDate: true });
  fc.assert(
    fc.property(moment, fc.nat(999), (date, us) => {
      const micros = String(us).padStart(3, "0");
      const stamp = `${date.toISOString().replace("T", " ").replace("Z", "")}${micros}`;
      const after = ["1", stamp, stamp.slice(0, 10), stamp.slice(11), `${stamp}+00`];
      const exact = BigInt(date.getTime()) * 1000n + BigInt(us);
      const day = Math.floor(date.getTime() / 86_400_000);
      const row = sent(table, debezium(), { after }).after;
      const inDay = exact - BigInt(day) * 86_400_000_000n;
      expect(row).toMatchObject({ us: exact, day, time: inDay, tz: `${stamp.replace(" ", "T")}Z` });
      const connect = sent(table, debezium({ time_precision_mode: "Connect" }), { after }).after;
      expect(connect).toMatchObject({ us: BigInt(date.getTime()), day, time: Number(inDay / 1000n) });
      const nanos = sent(table, debezium({ time_precision_mode: "Nanoseconds" }), { after }).after as Row;
      const fits = BigInt.asIntN(64, exact * 1000n) === exact * 1000n;
      expect(nanos.us).toBe(fits ? exact * 1000n : null);
    }),
    { numRuns: 500 },
  );
});

test("any array of texts is the same array, of any length", () => {
  const table = relation("arrays", [["v", 1009, "text[]"]], { key: [] });
  const quoted = (value: string | null) => (value === null ? "NULL" : `"${value.replace(/["\\]/g, "\\$&")}"`);
  fc.assert(
    fc.property(fc.array(fc.option(text), { maxLength: 200, size: "max" }), (values) => {
      const after = [`{${values.map(quoted).join(",")}}`];
      expect(sent(table, native, { after }).v).toEqual(values);
    }),
    { numRuns: 200 },
  );
});

// --- bytes as they lie in the arena -------------------------------------------------------------

test("bytes that are no UTF-8 become replacement characters", () => {
  const table = relation("t", [["v", 25, "text"]], { key: [] });
  const encoding = avroEncoding(table, native);
  const long = Buffer.concat([Buffer.from("a".repeat(100)), Buffer.of(0xff)]);
  for (const bytes of [Buffer.of(0x61, 0xff, 0x22), long]) {
    const arena = new Uint8Array(Buffer.concat([Buffer.of(0, 1, 0, 0, 0, bytes.length), bytes]));
    const view = new TupleView();
    view.read(arena, 0, arena.length);
    const out = new ByteWriter();
    encoding.encoder(1).writeRow(out, arena, new TupleView(), view, sampleContext);
    const { v } = decodeMessage(out.slice(), avroType(encoding.value.text)).value as { v: string };
    expect(v).toBe(bytes.toString());
  }
});

test("packed values are the bytes or the text that they stand for", () => {
  const content = Buffer.from("00ff10", "hex");
  const length = Buffer.alloc(4);
  length.writeInt32BE(packedFlag | content.length);
  const arena = new Uint8Array(Buffer.concat([Buffer.of(0, 1), length, content]));
  const packed = (typeOid: number, typeName: string, format: AvroFormat) => {
    const encoding = avroEncoding(relation("t", [["v", typeOid, typeName]], { key: [] }), format);
    const view = new TupleView();
    view.read(arena, 0, arena.length);
    const out = new ByteWriter();
    encoding.encoder(1).writeRow(out, arena, new TupleView(), view, sampleContext);
    const value = decodeMessage(out.slice(), avroType(encoding.value.text)).value as Row;
    return (format.kind === "native" ? value : (value.after as Row)).v;
  };
  expect(packed(17, "bytea", native)).toEqual(content);
  expect(packed(25, "text", native)).toBe("\\x00ff10");
  expect(packed(17, "bytea", debezium())).toEqual(content);
  expect(packed(17, "bytea", debezium({ binary_handling_mode: "Hex" }))).toBe("00ff10");
  expect(packed(17, "bytea", debezium({ binary_handling_mode: "Base64UrlSafe" }))).toBe("AP8Q");
});

test("large values are not copied, and are where they belong", () => {
  const table = relation(
    "t",
    [
      ["a", 25, "text"],
      ["b", 17, "bytea"],
      ["c", 23, "integer"],
    ],
    { key: [] },
  );
  const text = Buffer.from("é".repeat(600_000));
  const bytes = Buffer.alloc(1_100_000, 7);
  const column = (content: Buffer, flag: number) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(flag | content.length);
    return Buffer.concat([length, content]);
  };
  const parts = [Buffer.of(0, 3), column(text, 0), column(bytes, packedFlag), column(Buffer.from("5"), 0)];
  const arena = new Uint8Array(Buffer.concat(parts));
  const view = new TupleView();
  view.read(arena, 0, arena.length);
  for (const format of [native, debezium()]) {
    const encoding = avroEncoding(table, format);
    const out = new ByteWriter(8);
    encoding.encoder(1).writeRow(out, arena, new TupleView(), view, sampleContext);
    expect(out.length).toBeLessThan(1000);
    const message = Buffer.concat([...bodyChunks(out.takeBody())]);
    const value = decodeMessage(message, avroType(encoding.value.text)).value as Row;
    const row = (format.kind === "native" ? value : value.after) as Row;
    expect([row.a === text.toString(), bytes.equals(row.b as Buffer), row.c]).toEqual([true, true, 5]);
  }
});

// --- keys ---------------------------------------------------------------------------------------

test("a key is a record of its columns, in its order", () => {
  const table = relation(
    "t",
    [
      ["a", 23, "integer"],
      ["v", 25, "text"],
      ["b", 1184, "timestamp with time zone"],
    ],
    { key: [2, 0] },
  );
  for (const format of [native, debezium()]) {
    const encoding = avroEncoding(table, format);
    const bytes = encodedKey(encoding.keyEncoder(9), ["1", null, "2024-05-06 07:08:09+00"]);
    const { id, value } = decodeMessage(bytes, avroType(encoding.key!.text));
    expect([id, Object.entries(value as Row)]).toEqual([
      9,
      [
        ["b", "2024-05-06T07:08:09Z"],
        ["a", 1],
      ],
    ]);
  }
});
