// The lines that show a connector's tables to a user.

import { expect, test } from "bun:test";
import { listTables, tableTable } from "../../src/cli/table-commands.ts";
import type { CommandContext } from "../../src/cli/text/terminal.ts";
import type { TableStatus } from "../../src/connector/table-status.ts";

const streaming: TableStatus = {
  schema: "public",
  name: "orders",
  state: "Streaming",
  rows_in: 12_345,
  history: false,
  last_change_at: "2026-01-01T00:00:00.000Z",
};
const copying: TableStatus = {
  schema: "public",
  name: "t",
  state: "Copying",
  rows_in: 0,
  history: false,
  copy: { rows: 1_000, bytes: 9, estimated_rows: 4_000 },
};
const aside: TableStatus = {
  schema: "public",
  name: "u",
  state: "SetAside",
  rows_in: 1,
  history: false,
  reason: "It needs\na column.",
  commands: ["ALTER TABLE u ADD v int;"],
};

test("a line for each table, with its copy, its changes and its reason", () => {
  expect(tableTable([streaming, copying, aside], 200).split("\n")).toEqual([
    "TABLE          STATE      COPIED          CHANGES  LAST CHANGE               REASON",
    "public.orders  Streaming                  12,345   2026-01-01T00:00:00.000Z",
    "public.t       Copying    1,000 of 4,000  0",
    "public.u       SetAside                   1                                  It needs a column.",
  ]);
});

test("what is to be run at the sink comes whole, in lines of its own", async () => {
  const printed: string[] = [];
  const context = (tables: readonly TableStatus[], json: boolean) =>
    ({
      client: { call: async () => ({ body: { tables } }) },
      terminal: { print: (text: string) => printed.push(text), warn: () => {}, width: 40, repaint: null },
      json,
    }) as unknown as CommandContext;
  await listTables(context([aside], false), "orders");
  expect(printed.slice(1)).toEqual(["public.u needs at the sink:", "  ALTER TABLE u ADD v int;"]);
  printed.splice(0);
  await listTables(context([], false), "orders");
  expect(printed).toEqual(["No tables of orders are known yet."]);
  printed.splice(0);
  await listTables(context([aside], true), "orders");
  expect(JSON.parse(printed.join(""))).toEqual([aside]);
});
