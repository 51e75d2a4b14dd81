// Avro schemas as Confluent's AvroData makes them of the Connect schemas of both formats.

import { expect, test } from "bun:test";
import {
  completeWebhookFormat,
  type WebhookFormatRequest,
} from "../../../../src/connector/config/webhook-format.ts";
import { type AvroFormat, avroEncoding } from "../../../../src/sink/format/avro/avro-encoding.ts";
import { avroFormat } from "../../../../src/sink/format/avro/avro-format.ts";
import { avroFieldNames, avroFullName } from "../../../../src/sink/format/avro/avro-name.ts";
import { messageFormat } from "../../../../src/sink/webhook/webhook-settings.ts";
import { avroType } from "../../../support/rows/avro-decoding.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";

const debezium: AvroFormat = {
  kind: "debezium",
  options: {
    version: "1.2.3",
    name: "orders",
    database: "shop",
    includeBefore: true,
    now: () => 0,
    dataTypes: {
      binary_handling_mode: "Bytes",
      decimal_handling_mode: "Precise",
      time_precision_mode: "Connect",
    },
  },
};
const native: AvroFormat = { kind: "native", schemaPrefix: "orders" };

const typed = (typmod: number) =>
  relation(
    "items",
    [
      ["id", 20, "bigint"],
      ["small", 21, "smallint"],
      ["price", 1700, "numeric(10,2)"],
      ["day", 1082, "date"],
      ["at", 1114, "timestamp without time zone"],
      ["tags", 1009, "text[]"],
      ["raw", 17, "bytea"],
    ],
    { typmod },
  );

test("a row of the Debezium format, attribute for attribute", () => {
  const { value, key } = avroEncoding(typed(655_366), debezium);
  const schema = JSON.parse(value.text);
  expect(value.name).toBe("orders.public.items.Envelope");
  expect({ ...schema, fields: schema.fields.map(({ name }: { name: string }) => name) }).toEqual({
    type: "record",
    name: "Envelope",
    namespace: "orders.public.items",
    fields: ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"],
    "connect.version": 2,
    "connect.name": "orders.public.items.Envelope",
  });
  expect(schema.fields[0].type[1]).toEqual({
    type: "record",
    name: "Value",
    namespace: "orders.public.items",
    fields: [
      { name: "id", type: "long" },
      { name: "small", type: ["null", { type: "int", "connect.type": "int16" }], default: null },
      {
        name: "price",
        type: [
          "null",
          {
            type: "bytes",
            scale: 2,
            precision: 10,
            "connect.version": 1,
            "connect.parameters": { scale: "2", "connect.decimal.precision": "10" },
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            logicalType: "decimal",
          },
        ],
        default: null,
      },
      {
        name: "day",
        type: [
          "null",
          {
            type: "int",
            "connect.version": 1,
            "connect.name": "org.apache.kafka.connect.data.Date",
            logicalType: "date",
          },
        ],
        default: null,
      },
      {
        name: "at",
        type: [
          "null",
          {
            type: "long",
            "connect.version": 1,
            "connect.name": "org.apache.kafka.connect.data.Timestamp",
            logicalType: "timestamp-millis",
          },
        ],
        default: null,
      },
      { name: "tags", type: ["null", { type: "array", items: ["null", "string"] }], default: null },
      { name: "raw", type: ["null", "bytes"], default: null },
    ],
    "connect.name": "orders.public.items.Value",
  });
  expect(schema.fields[1]).toEqual({
    name: "after",
    type: ["null", "orders.public.items.Value"],
    default: null,
  });
  expect(JSON.parse(key!.text)).toEqual({
    type: "record",
    name: "Key",
    namespace: "orders.public.items",
    fields: [{ name: "id", type: "long" }],
    "connect.name": "orders.public.items.Key",
  });
});

test("a record that occurs twice is defined once", () => {
  const points = relation("points", [
    ["id", 23, "integer"],
    ["a", 600, "point"],
    ["b", 600, "point"],
    ["n", 1700, "numeric"],
    ["ns", 1231, "numeric[]"],
  ]);
  const text = avroEncoding(points, debezium).value.text;
  for (const name of ["Point", "VariableScaleDecimal", "Value"]) {
    expect(text.split(`"type":"record","name":"${name}"`).length - 1).toBe(1);
  }
  expect(() => avroType(text)).not.toThrow();
});

test("a row of the native format", () => {
  const table = relation("docs", [
    ["id", 2950, "uuid"],
    ["doc", 3802, "jsonb"],
    ["n", 1700, "numeric(10,2)"],
  ]);
  const { value } = avroEncoding(table, native);
  expect(value.name).toBe("orders.public.docs.Value");
  expect(JSON.parse(value.text).fields).toEqual([
    { name: "id", type: "string" },
    {
      name: "doc",
      type: ["null", { type: "string", "connect.version": 1, "connect.name": "io.debezium.data.Json" }],
      default: null,
    },
    { name: "n", type: ["null", "string"], default: null },
    { name: "_sm_version", type: "long" },
    { name: "_sm_deleted", type: "boolean" },
  ]);
});

test("where an old row may lack the key, no field of it is required", () => {
  const table = relation("t", [["id", 23, "integer"]], { replicaIdentity: "index" });
  for (const format of [native, debezium]) {
    const { value, key } = avroEncoding(table, format);
    expect(JSON.parse(key!.text).fields).toEqual([{ name: "id", type: ["null", "int"], default: null }]);
    expect(value.text).toContain(`{"name":"id","type":["null","int"],"default":null}`);
  }
});

test("a decimal is a valid one whatever its scale", () => {
  const decimal = (typmod: number) => {
    const table = relation("t", [["n", 1700, "numeric"]], { typmod, key: [] });
    return JSON.parse(avroEncoding(table, debezium).value.text).fields[0].type[1].fields[0].type[1];
  };
  const typmod = (precision: number, scale: number) => ((precision << 16) | (scale & 0x7ff)) + 4;
  expect(decimal(typmod(3, -2))).toMatchObject({ precision: 5, scale: 0 });
  expect(decimal(typmod(2, 5))).toMatchObject({ precision: 5, scale: 5 });
});

test("a connector's format is what its records are named by and made of", () => {
  const connector = { id: "shop", database: "d" };
  const of = (request: WebhookFormatRequest) =>
    avroFormat(messageFormat(completeWebhookFormat(request)), connector);
  expect(of({})).toEqual({ kind: "native", schemaPrefix: "shop" });
  const format = of({ debezium: { include_before: false, data_types: { decimal_handling_mode: "String" } } });
  expect(format).toMatchObject({ kind: "debezium", options: { database: "d", name: "shop" } });
  expect(format).toMatchObject({
    options: { includeBefore: false, dataTypes: { decimal_handling_mode: "String" } },
  });
  expect(avroEncoding(typed(-1), format).value.name).toBe("shop.public.items.Envelope");
});

test("no key without a key", () => {
  const table = relation("t", [["id", 23, "integer"]], { key: [] });
  expect(avroEncoding(table, native).key).toBeNull();
});

test("names become ones that Avro allows, as Debezium makes them", () => {
  expect(avroFullName("shop-1.public.order items.Value")).toBe("shop_1.public.order_items.Value");
  expect(avroFullName("1shop.2nd.é..Key")).toBe("_shop._2nd._._.Key");
  expect(avroFieldNames(["id", "a-b", "a b", "a_b", "1st", "", "é"])).toEqual([
    ...["id", "a_b_2", "a_b_3", "a_b", "_1st", "_", "__2"],
  ]);
  const odd = relation('we"ird.täble', [["1 ö", 23, "integer"]], { schema: "9" });
  for (const format of [native, debezium]) {
    const { value, key } = avroEncoding(odd, format);
    expect(() => [value.text, key!.text].map(avroType)).not.toThrow();
  }
});
