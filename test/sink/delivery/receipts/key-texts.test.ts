// Keys as people write them become the texts that the source sends.

import { expect, test } from "bun:test";
import { keyTexts } from "../../../../src/sink/delivery/receipts/key-texts.ts";

const columns = {
  int8: { name: "k", typeOid: 20, typeName: "bigint" },
  bool: { name: "k", typeOid: 16, typeName: "boolean" },
  uuid: { name: "k", typeOid: 2950, typeName: "uuid" },
  numeric: { name: "k", typeOid: 1700, typeName: "numeric" },
  bytea: { name: "k", typeOid: 17, typeName: "bytea" },
  timestamp: { name: "k", typeOid: 1114, typeName: "timestamp without time zone" },
  timestamptz: { name: "k", typeOid: 1184, typeName: "timestamp with time zone" },
  text: { name: "k", typeOid: 25, typeName: "text" },
};

const one = (type: keyof typeof columns, value: unknown) => {
  const read = keyTexts([columns[type]], { k: value });
  return read.kind === "texts" ? read.texts[0] : read.violations;
};

test.each([
  ["int8", 7, "7"],
  ["int8", "9007199254740993", "9007199254740993"],
  ["bool", true, "t"],
  ["bool", "f", "f"],
  ["uuid", "018BCFE568037B54A1B2C3D4E5F60718", "018bcfe5-6803-7b54-a1b2-c3d4e5f60718"],
  ["numeric", "1.50", "1.50"],
  ["numeric", 12, "12"],
  ["bytea", "AP8=", "\\x00ff"],
  ["bytea", "\\xAB", "\\xab"],
  ["timestamp", "2024-01-02T03:04:05.678901", "2024-01-02 03:04:05.678901"],
  ["timestamptz", "2024-01-02T03:04:05.678901Z", "2024-01-02 03:04:05.678901+00"],
  ["timestamptz", "2024-01-02T03:04:05+02:00", "2024-01-02 01:04:05+00"],
  ["timestamptz", "infinity", "infinity"],
  ["text", "T Z", "T Z"],
] as const)("%s %p is %p", (type, value, text) => {
  expect(one(type, value)).toBe(text);
});

test.each([
  ["int8", 2 ** 53],
  ["int8", "seven"],
  ["bool", 1],
  ["uuid", "7"],
  ["text", 7],
  ["text", null],
  ["bytea", "no base64!"],
] as const)("%s does not take %p", (type, value) => {
  expect(one(type, value)).toMatchObject([{ path: "/key/k" }]);
});

test("each column is needed, and no other", () => {
  const pair = [
    { ...columns.int8, name: "a" },
    { ...columns.text, name: "b/c" },
  ];
  expect(keyTexts(pair, { a: 1, "b/c": "x" })).toEqual({ kind: "texts", texts: ["1", "x"] });
  expect(keyTexts(pair, { a: 1, d: 2 })).toEqual({
    kind: "unfit",
    violations: [
      { path: "/key/d", message: "no column of the key, which is a, b/c" },
      { path: "/key/b~1c", message: "required: the key is a, b/c" },
    ],
  });
});
