import { expect, test } from "bun:test";
import type { GivenKey } from "../../../src/connector/replay.ts";
import { textsOfKeys } from "../../../src/pipeline/replay/given-keys.ts";
import { relation } from "../../support/rows/batch-fixture.ts";

const keyOf = (typeOid: number, typeName: string) => relation("t", [["id", typeOid, typeName]], { key: [0] });

const bigint = keyOf(20, "bigint");
const numeric = keyOf(1700, "numeric");
const double = keyOf(701, "double precision");
const text = keyOf(25, "text");
const bytea = keyOf(17, "bytea");
const flag = keyOf(16, "boolean");

test.each([
  [bigint, 7, "7"],
  [bigint, "9007199254740993", "9007199254740993"],
  [numeric, 1.5, "1.5"],
  [numeric, "1.50000000000000000001", "1.50000000000000000001"],
  [double, 0.1, "0.1"],
  [double, 1e300, "1e+300"],
  [text, "", ""],
  [flag, false, "false"],
  [bytea, "3q2+7w==", "\\xdeadbeef"],
  [bytea, "\\xdeadbeef", "\\xdeadbeef"],
  [bytea, "", "\\x"],
] as const)(
  "a value as a delivery shows it becomes the text that Postgres reads (%#)",
  (table, id, wanted) => {
    expect(textsOfKeys(table, [{ id }])).toEqual([[wanted]]);
  },
);

test.each<readonly [typeof text, GivenKey, string]>([
  [bigint, { id: 2 ** 53 }, "keys[0].id: a number with so many digits"],
  [numeric, { id: 0.1234567890123456 }, "keys[0].id: a number with so many digits"],
  [bigint, { id: true }, "keys[0].id: expected a text of the type bigint"],
  [text, { id: 7 }, "keys[0].id: expected a text of the type text"],
  [flag, { id: 1 }, "keys[0].id: expected a text of the type boolean"],
  [bytea, { id: "abc" }, "keys[0].id: expected base64"],
  [text, {}, "keys[0].id: required. The key of public.t is (id)."],
  [text, { id: "a", v: "b" }, "keys[0].v: the key has no such column"],
  [text, JSON.parse('{"id": "a", "__proto__": "b"}'), "keys[0].__proto__: the key has no such column"],
])("what is no key is refused, with the member that is wrong (%#)", (table, key, wanted) => {
  expect(() => textsOfKeys(table, [key])).toThrow(wanted);
});

test("columns come in the order of the key, whatever the order in which they are given", () => {
  const table = relation(
    "t",
    [
      ["a", 20, "bigint"],
      ["b", 25, "text"],
    ],
    { key: [1, 0] },
  );
  expect(textsOfKeys(table, [{ a: 1, b: "x" }])).toEqual([["x", "1"]]);
});
