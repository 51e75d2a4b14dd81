// What is shown of a connector's tables, over the attempts of a run, and over runs.

import { expect, test } from "bun:test";
import type { TableReport } from "../../../src/pipeline/table-states.ts";
import { TableBoard } from "../../../src/runtime/status/table-board.ts";

const table = (id: number, name: string, change: Partial<TableReport> = {}): TableReport => ({
  id,
  schema: "public",
  name,
  state: "Streaming",
  reason: null,
  commands: [],
  copy: null,
  rowsIn: 0,
  lastChangeMs: null,
  history: false,
  ...change,
});
const first = (...tables: TableReport[]) => ({ isFirst: true, tables, gone: [] });
const later = (...tables: TableReport[]) => ({ isFirst: false, tables, gone: [] });

test("tables are sorted by schema and name", () => {
  const board = new TableBoard();
  expect(board.list("orders", "run")).toEqual([]);
  board.reported("orders", "run", first(table(1, "b"), table(2, "a"), table(3, "z", { schema: "app" })));
  expect(board.list("orders", "run").map(({ schema, name }) => `${schema}.${name}`)).toEqual([
    "app.z",
    "public.a",
    "public.b",
  ]);
});

test("attempts of a run add up, by table, whatever its name", () => {
  const board = new TableBoard();
  board.reported("orders", "run", first(table(1, "a"), table(2, "b")));
  board.reported("orders", "run", later(table(1, "a", { rowsIn: 5, lastChangeMs: 1_000 })));
  board.reported("orders", "run", first(table(1, "c"), table(3, "d")));
  board.reported("orders", "run", later(table(3, "d", { rowsIn: 1, lastChangeMs: 3_000 })));
  const shown = (rows: number, at: string) => ({
    rows_in: rows,
    last_change_at: `1970-01-01T00:00:0${at}.000Z`,
  });
  expect(board.list("orders", "run")).toMatchObject([shown(5, "1"), shown(1, "3")]);
  board.reported("orders", "run", later(table(1, "c", { rowsIn: 2, lastChangeMs: 4_000 })));
  expect(board.list("orders", "run")[0]).toMatchObject(shown(7, "4"));
  board.reported("orders", "run", { ...later(), gone: [1] });
  expect(board.list("orders", "run").map(({ name }) => name)).toEqual(["d"]);
});

test("another run begins at zero, and shows where tables stood until it knows", () => {
  const board = new TableBoard();
  const aside = { state: "SetAside", reason: "It needs v.", commands: ["alter;"] } as const;
  board.reported("orders", "run", first(table(1, "a", { ...aside, rowsIn: 5, lastChangeMs: 1_000 })));
  expect(board.list("orders", "next")).toEqual([
    { schema: "public", name: "a", ...aside, commands: ["alter;"], rows_in: 0, history: false },
  ]);
  board.reported("orders", "next", first(table(1, "a", { rowsIn: 1 })));
  // A late report of the earlier run.
  board.reported("orders", "run", later(table(1, "a", { rowsIn: 9 })));
  expect(board.list("orders", "next")).toMatchObject([{ state: "Streaming", rows_in: 1 }]);
  board.forget("orders");
  expect(board.list("orders", "next")).toEqual([]);
});
