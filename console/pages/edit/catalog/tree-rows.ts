// The rows of the tree of tables: what is open, what a search leaves, and whether all, some or none of it is carried. Pure.

import type { KnownTables, Selection, TableName } from "./selection.ts";

export type Ticked = "all" | "some" | "none";

export type TreeRow =
  | {
      readonly kind: "schema";
      readonly key: string;
      readonly schema: string;
      readonly ticked: Ticked;
      readonly isOpen: boolean;
      /** Of those that the search leaves. */
      readonly taken: number;
      readonly tables: readonly TableName[];
      readonly position: number;
      readonly setSize: number;
    }
  | {
      readonly kind: "table";
      readonly key: string;
      readonly schema: string;
      readonly table: string;
      readonly ticked: Ticked;
      readonly columns: number;
      readonly leftOut: number;
      readonly hashed: number;
      /** Every change of it is kept. */
      readonly hasHistory: boolean;
      readonly position: number;
      readonly setSize: number;
    };

export interface TreeView {
  readonly rows: readonly TreeRow[];
  /** All that the search leaves. */
  readonly tables: readonly TableName[];
  readonly taken: number;
}

/**
 * @param search words, each of which has to be in `schema.table` or in a column's name
 * @param closed schemas whose tables are folded away; a search shows them all the same
 */
export function treeView(
  known: KnownTables,
  selection: Selection,
  search: string,
  closed: ReadonlySet<string>,
): TreeView {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = known
    .map((schema) => ({
      name: schema.name,
      tables: schema.tables.filter((table) => matches(schema.name, table, words)),
    }))
    .filter(({ tables }) => tables.length > 0);
  const rows = found.flatMap(({ name, tables }, at): TreeRow[] => {
    const isOpen = words.length > 0 || !closed.has(name);
    const names = tables.map((table) => ({ schema: name, table: table.name }));
    const taken = names.filter(({ table }) => selection.hasTable(name, table)).length;
    const place = { position: at + 1, setSize: found.length };
    const ticked = taken === 0 ? "none" : taken === tables.length ? "all" : "some";
    const head: TreeRow = {
      kind: "schema",
      key: JSON.stringify([name]),
      schema: name,
      ticked,
      isOpen,
      taken,
      tables: names,
      ...place,
    };
    return isOpen
      ? [head, ...tables.map((table, index) => tableRow(selection, name, table, index, tables.length))]
      : [head];
  });
  const tables = rows.flatMap((row) => (row.kind === "schema" ? row.tables : []));
  const taken = rows.reduce((sum, row) => sum + (row.kind === "schema" ? row.taken : 0), 0);
  return { rows, tables, taken };
}

type KnownTable = KnownTables[number]["tables"][number];

function matches(schema: string, table: KnownTable, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const name = `${schema}.${table.name}`.toLowerCase();
  return words.every(
    (word) => name.includes(word) || table.columns.some((column) => column.name.toLowerCase().includes(word)),
  );
}

function tableRow(
  selection: Selection,
  schema: string,
  table: KnownTable,
  index: number,
  setSize: number,
): TreeRow {
  const { columns: listed = [], history_enabled: hasHistory = false } =
    selection.table(schema, table.name) ?? {};
  const leftOut = listed.filter(({ action }) => action === "Exclude").length;
  const hashed = listed.filter(({ action, hash }) => action !== "Exclude" && hash !== undefined).length;
  const isTaken = selection.hasTable(schema, table.name);
  return {
    kind: "table",
    key: JSON.stringify([schema, table.name]),
    schema,
    table: table.name,
    ticked: isTaken ? (leftOut > 0 ? "some" : "all") : "none",
    columns: table.columns.length,
    leftOut,
    hashed,
    hasHistory,
    position: index + 1,
    setSize,
  };
}

/** Where the keyboard goes from a row; null: nowhere else. */
export function nextRow(rows: readonly TreeRow[], at: number, key: string): number | null {
  const row = rows[at];
  const last = rows.length - 1;
  switch (key) {
    case "ArrowDown":
      return at < last ? at + 1 : null;
    case "ArrowUp":
      return at > 0 ? at - 1 : null;
    case "Home":
      return 0;
    case "End":
      return last;
    case "PageDown":
      return Math.min(last, at + 10);
    case "PageUp":
      return Math.max(0, at - 10);
    case "ArrowLeft":
      return row?.kind === "table"
        ? rows.findIndex((each) => each.kind === "schema" && each.schema === row.schema)
        : null;
    case "ArrowRight":
      return row?.kind === "schema" && row.isOpen && rows[at + 1]?.kind === "table" ? at + 1 : null;
    default:
      return null;
  }
}
