// A message's key in JSON.

import { expect, test } from "bun:test";
import { JsonKeyEncoder, type JsonKeyOptions } from "../../../src/sink/format/key-encoder.ts";
import { encodedKey } from "../../support/rows/avro-rows.ts";
import { relation, type TextTuple } from "../../support/rows/batch-fixture.ts";

const table = relation(
  "Order items",
  [
    ["day", 1082, "date"],
    ["v", 25, "text"],
    ["id", 20, "bigint"],
    ["n", 1700, "numeric"],
  ],
  { key: [2, 0, 3] },
);
const dataTypes = {
  binary_handling_mode: "Bytes",
  decimal_handling_mode: "Precise",
  time_precision_mode: "Adaptive",
} as const;

const sent = (tuple: TextTuple, options: Partial<JsonKeyOptions> = {}) =>
  Buffer.from(
    encodedKey(new JsonKeyEncoder(table, { embedSchema: false, schemaPrefix: "shop", ...options }), tuple),
  ).toString();

const row: TextTuple = ["2024-01-02", "x", "9007199254740993", "1.10"];

test("the key's columns in its order, in each format's values", () => {
  expect(sent(row)).toBe('{"id":9007199254740993,"day":"2024-01-02","n":"1.10"}');
  expect(sent(row, { dataTypes })).toBe('{"id":9007199254740993,"day":19724,"n":{"scale":2,"value":"bg=="}}');
  expect(sent(["2024-01-02", null, null, "1"])).toBe('{"id":null,"day":"2024-01-02","n":"1"}');
});

test("the embedded schema is Debezium's of a key", () => {
  const { schema, payload } = JSON.parse(sent(row, { embedSchema: true, dataTypes }));
  expect(payload).toEqual({ id: 9007199254740992, day: 19724, n: { scale: 2, value: "bg==" } });
  expect(schema).toMatchObject({ type: "struct", optional: false, name: "shop.public.Order items.Key" });
  expect(schema.fields.slice(0, 2)).toEqual([
    { type: "int64", optional: false, field: "id" },
    { type: "int32", optional: false, name: "io.debezium.time.Date", version: 1, field: "day" },
  ]);
  expect(JSON.parse(sent(row, { embedSchema: true })).schema.fields[1]).toEqual({
    type: "string",
    optional: false,
    field: "day",
  });
});
