import { describe, expect, test } from "bun:test";
import { snakeName } from "../../../../src/sink/postgres/schema/snake-name.ts";
import { TargetNaming } from "../../../../src/sink/postgres/schema/target-naming.ts";

describe("a name of letters, digits and underscores", () => {
  const cases: readonly [string, string][] = [
    ["orders", "orders"],
    ["Orders", "orders"],
    ["orderItem", "order_item"],
    ["OrderItem2Price", "order_item2_price"],
    ["HTTPServer", "http_server"],
    ["userID", "user_id"],
    ["first name", "first_name"],
    ["total$amount!!", "total_amount_"],
    ["a__b", "a_b"],
    ["1st", "_1st"],
    ["Montréal Straße Ærø", "montreal_strasse_aero"],
    ["é", "e"],
    ["имя", "u438u43cu44f"],
    ["", "_"],
    ["CTID", "_ctid"],
    ["Xmin", "_xmin"],
    ["xMin", "x_min"],
    ["Tableoid", "_tableoid"],
  ];
  test.each(cases)("%s", (name, expected) => {
    expect(snakeName(name, "column")).toBe(expected);
  });

  test("a table's does not begin with an underscore, unless a digit follows", () => {
    expect(["__t", "_1", "1"].map((name) => snakeName(name, "table"))).toEqual(["t", "_1", "_1"]);
    expect(snakeName("_sm_row_hash", "column")).toBe("_sm_row_hash");
  });
});

test("what the server keeps for itself, and the bookkeeping's schema", () => {
  const names = ["Pg Catalog", "Information Schema", "Millrace", "page"];
  expect(names.map((name) => snakeName(name, "schema"))).toEqual([
    ...["_pg_catalog", "_information_schema", "_millrace", "page"],
  ]);
  expect(snakeName("Ctid", "table")).toBe("ctid");
});

test("schemas, prefixes, and 63 bytes", () => {
  const fivetran = { schema_prefix: "My App", column_conflict: "Fail", table_conflict: "Merge" } as const;
  const naming = new TargetNaming(null, { FivetranNaming: fivetran });
  expect(naming.target({ schema: "Sales", name: "OrderItem" })).toEqual({
    schema: "my_app_sales",
    name: "order_item",
  });
  expect(naming.target({ schema: "s", name: "aB".repeat(40) }).name).toHaveLength(63);
  expect(new TargetNaming("Here", { FivetranNaming: fivetran }).schema("Sales")).toBe("Here");
  expect(new TargetNaming(null).target({ schema: "Sales", name: "T" })).toEqual({
    schema: "Sales",
    name: "T",
  });
});
