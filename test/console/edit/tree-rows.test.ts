// The rows of the tree of tables.

import { describe, expect, test } from "bun:test";
import { type KnownTables, Selection } from "../../../console/pages/edit/catalog/selection.ts";
import { nextRow, treeView } from "../../../console/pages/edit/catalog/tree-rows.ts";
import { usedMs } from "../../support/processor-time.ts";

const table = (name: string, ...columns: string[]): KnownTables[number]["tables"][number] => ({
  name,
  action: "Include",
  history_enabled: false,
  columns: columns.map((column) => ({ name: column, action: "Include" })),
});
const hostile = `we "quote" <b>html</b> שלום 😀`;
const known: KnownTables = [
  {
    name: "public",
    action: "Include",
    tables: [table("orders", "id", "note"), table("customers", "id", "email")],
  },
  { name: "sales", action: "Include", tables: [table(hostile, "id")] },
];
const none: ReadonlySet<string> = new Set();

describe("the tree", () => {
  test("has a row for each schema and each table, with how much is carried", () => {
    const catalog = {
      schemas: [
        {
          name: "public",
          tables: [
            { name: "orders", columns: [{ name: "note", action: "Exclude" as const }] },
            { name: "customers", action: "Exclude" as const },
          ],
        },
      ],
    };
    const { rows, taken, tables } = treeView(known, new Selection(catalog), "", none);
    expect(rows.map((row) => [row.kind === "schema" ? row.schema : row.table, row.ticked])).toEqual([
      ["public", "some"],
      ["orders", "some"],
      ["customers", "none"],
      ["sales", "all"],
      [hostile, "all"],
    ]);
    expect([taken, tables.length]).toEqual([2, 3]);
  });

  test("shows what a search leaves, by table, schema or column, also where it is folded away", () => {
    const names = (search: string, closed = none) =>
      treeView(known, new Selection({}), search, closed).rows.flatMap((row) =>
        row.kind === "table" ? [row.table] : [],
      );
    expect(names("EMAIL")).toEqual(["customers"]);
    expect(names("public ord")).toEqual(["orders"]);
    expect(names("<b>", new Set(["sales"]))).toEqual([hostile]);
    expect(names("nothing of this")).toEqual([]);
    expect(names("", new Set(["public", "sales"]))).toEqual([]);
  });

  test("goes where the keys say", () => {
    const { rows } = treeView(known, new Selection({}), "", none);
    expect(nextRow(rows, 0, "ArrowDown")).toBe(1);
    expect(nextRow(rows, 0, "ArrowUp")).toBeNull();
    expect(nextRow(rows, 0, "ArrowRight")).toBe(1);
    expect(nextRow(rows, 2, "ArrowLeft")).toBe(0);
    expect(nextRow(rows, 0, "ArrowLeft")).toBeNull();
    expect(nextRow(rows, 1, "End")).toBe(4);
    expect(nextRow(rows, 4, "ArrowDown")).toBeNull();
    expect(nextRow(rows, 4, "PageUp")).toBe(0);
  });

  test("takes five thousand tables in its stride", () => {
    const many: KnownTables = [
      {
        name: "public",
        action: "Include",
        tables: Array.from({ length: 5_000 }, (_, at) => table(`t_${at}`, "id")),
      },
    ];
    const start = usedMs();
    expect(treeView(many, new Selection({}), "t_49", none).tables).toHaveLength(111);
    expect(usedMs() - start).toBeLessThan(500);
  });
});
