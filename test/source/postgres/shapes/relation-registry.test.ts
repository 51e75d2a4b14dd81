import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import type { TableSelection } from "../../../../src/source/postgres/catalog/table-selection.ts";
import { RelationRegistry } from "../../../../src/source/postgres/shapes/relation-registry.ts";
import { transformedRelation } from "../../../../src/source/postgres/shapes/row-transform.ts";
import { systemColumnsOf } from "../../../../src/source/postgres/shapes/system-columns.ts";

const plain: TableSelection = {
  includesTable: () => true,
  includesColumn: () => true,
  hashedColumns: () => [],
  mayExclude: () => true,
  salt: "",
  hashesKeylessRows: false,
  systemColumns: systemColumnsOf({}),
};
const column = (name: string, inIdentity: boolean) => ({ name, typeOid: 23, typmod: -1, inIdentity });
const message = {
  oid: 7,
  schema: "public",
  name: "orders",
  identity: "d",
  columns: [column("id", true), column("note", false)],
} as const;

/** The slot of a table that a shape marker has renamed, after it was announced as `orders`. */
function renamedTo(name: string, change: Partial<TableSelection>, isDescribed = true) {
  const selection = { ...plain, ...change };
  const registry = new RelationRegistry(
    selection,
    [],
    () => undefined,
    () => {},
    "text",
  );
  registry.announce(message, lsn(1n), 1);
  const announced = registry.find(7)!.relation;
  const columns = announced.columns.map((each, i) => ({ ...each, number: i + 1, typeName: "integer" }));
  const described = transformedRelation({ ...announced, columns }, selection, false);
  if (isDescribed) registry.describe(announced, described, [[announced]]);
  registry.rename({ ...described, name });
  return registry.find(7)!;
}

test.each([
  ["as it is", {}],
  ["with columns of the connector's own", { systemColumns: systemColumnsOf({ lsn: {} }) }],
  ["without a column that is left out", { includesColumn: (...[, , name]: string[]) => name !== "note" }],
])("a table that is carried %s takes the name of a marker, also before it is described", (_, change) => {
  for (const isDescribed of [true, false]) {
    const slot = renamedTo("former_orders", change, isDescribed);
    expect([slot.relation.name, slot.message.name]).toEqual(["former_orders", "former_orders"]);
  }
});

test("one that leaves out other columns under its new name keeps the old one, until it is announced", () => {
  const includesColumn = (_schema: string, table: string, name: string) =>
    table === "orders" || name !== "note";
  expect(renamedTo("former_orders", { includesColumn }).relation.name).toBe("orders");
});
