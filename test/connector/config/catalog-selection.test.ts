import { describe, expect, test } from "bun:test";
import { hashedColumns, selectColumn, selectTable } from "../../../src/connector/config/catalog-selection.ts";
import { usedMs } from "../../support/processor-time.ts";
import { configSample, sourceSample } from "../samples.ts";

function catalogOf(catalog: object) {
  const source = configSample({ source: sourceSample({ catalog }) }).source.postgres;
  if (!source) throw new Error("no source");
  return source.catalog;
}

describe("tables", () => {
  test("without a catalog, everything except system schemas", () => {
    const catalog = catalogOf({});
    expect(selectTable(catalog, "public", "orders")).toBe(true);
    expect(selectTable(catalog, "pg_catalog", "pg_class")).toBe(false);
    expect(selectTable(catalog, "pg_toast", "x")).toBe(false);
    expect(selectTable(catalog, "information_schema", "tables")).toBe(false);
  });

  test("a listed table is included under a default of Exclude, and no other", () => {
    const catalog = catalogOf({
      default_action: "Exclude",
      schemas: [{ name: "public", tables: [{ name: "orders" }] }],
    });
    expect(selectTable(catalog, "public", "orders")).toBe(true);
    expect(selectTable(catalog, "public", "customers")).toBe(false);
    expect(selectTable(catalog, "audit", "orders")).toBe(false);
  });

  test("a listed table can be excluded under a default of Include", () => {
    const catalog = catalogOf({
      schemas: [{ name: "public", tables: [{ name: "orders", action: "Exclude" }] }],
    });
    expect(selectTable(catalog, "public", "orders")).toBe(false);
    expect(selectTable(catalog, "public", "customers")).toBe(true);
  });

  test("a listed schema with no tables takes the schema's action", () => {
    const catalog = catalogOf({ default_action: "Exclude", schemas: [{ name: "public" }] });
    expect(selectTable(catalog, "public", "orders")).toBe(true);
    expect(selectTable(catalog, "audit", "orders")).toBe(false);
    const excluded = catalogOf({ schemas: [{ name: "audit", action: "Exclude" }] });
    expect(selectTable(excluded, "audit", "orders")).toBe(false);
    expect(selectTable(excluded, "public", "orders")).toBe(true);
  });

  test("a table's action overrides its schema's", () => {
    const catalog = catalogOf({
      schemas: [{ name: "audit", action: "Exclude", tables: [{ name: "log", action: "Include" }] }],
    });
    expect(selectTable(catalog, "audit", "log")).toBe(true);
    expect(selectTable(catalog, "audit", "other")).toBe(false);
  });
});

describe("columns", () => {
  const catalog = catalogOf({
    default_action: "Exclude",
    column_hashing: { salt: "s" },
    schemas: [
      {
        name: "public",
        tables: [
          {
            name: "orders",
            columns: [
              { name: "card", action: "Exclude" },
              { name: "mail", hash: {} },
            ],
          },
          { name: "gone", action: "Exclude" },
        ],
      },
    ],
  });

  test("only excluded columns are left out", () => {
    expect(selectColumn(catalog, "public", "orders", "card")).toBe(false);
    expect(selectColumn(catalog, "public", "orders", "mail")).toBe(true);
    expect(selectColumn(catalog, "public", "orders", "added_later")).toBe(true);
    expect(selectColumn(catalog, "public", "gone", "id")).toBe(false);
  });

  test("hashed columns", () => {
    expect(hashedColumns(catalog, "public", "orders")).toEqual(["mail"]);
    expect(hashedColumns(catalog, "public", "other")).toEqual([]);
  });
});

test("a catalog of ten thousand tables is asked of each column in a moment, and the first entry of a name counts", () => {
  const table = (name: string, action: "Include" | "Exclude") => ({
    name,
    action,
    history_enabled: false,
    columns: [{ name: "secret", action: "Exclude" as const }],
  });
  const tables = Array.from({ length: 10_000 }, (_, i) =>
    table(`t${i}`, i % 2 === 0 ? "Include" : "Exclude"),
  );
  const schema = { name: "public", action: "Include" as const, tables: [...tables, table("t0", "Exclude")] };
  const catalog = { name: "", schemas: [schema], default_action: "Exclude" as const };
  const beganMs = usedMs();
  const selected = tables.filter(({ name }) =>
    ["a", "b", "c", "d", "e"].every((column) => selectColumn(catalog, "public", name, column)),
  );
  expect(selected).toHaveLength(5_000);
  expect(tables.some(({ name }) => selectColumn(catalog, "public", name, "secret"))).toBe(false);
  expect(usedMs() - beganMs).toBeLessThan(300);
});
