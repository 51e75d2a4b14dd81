// The `tables` command: where each table of a connector stands.

import type { TableStatus, TableStatuses } from "../connector/table-status.ts";
import { connectorPath } from "./apply-connectors.ts";
import { type CommandContext, printJson, type Terminal } from "./text/terminal.ts";
import { oneLine, textTable } from "./text/text-table.ts";

export async function listTables(
  { client, terminal, json }: CommandContext,
  connector: string,
): Promise<void> {
  const { body } = await client.call<TableStatuses>("GET", `${connectorPath(connector)}/tables`);
  if (json) return printJson(terminal, body.tables);
  if (body.tables.length === 0) return terminal.print(`No tables of ${connector} are known yet.`);
  terminal.print(tableTable(body.tables, terminal.width));
  printCommands(terminal, body.tables);
}

/** Pure. */
export function tableTable(tables: readonly TableStatus[], width: number): string {
  const rows = tables.map((table) => [
    `${table.schema}.${table.name}`,
    table.state,
    copied(table),
    table.rows_in.toLocaleString("en-US"),
    table.last_change_at ?? "",
    table.reason ?? "",
  ]);
  return textTable(["TABLE", "STATE", "COPIED", "CHANGES", "LAST CHANGE", "REASON"], rows, width);
}

/** Its rows, of those that the source estimates; or what is done with them once all are read. */
function copied({ copy }: TableStatus): string {
  if (!copy) return "";
  const rows = copy.rows.toLocaleString("en-US");
  if (copy.phase === "Writing") return `${rows}, writing`;
  if (copy.phase === "Finishing") return `${rows}, finishing`;
  return `${rows} of ${copy.estimated_rows.toLocaleString("en-US")}`;
}

/** In lines of their own, to be pasted. */
function printCommands(terminal: Terminal, tables: readonly TableStatus[]): void {
  for (const { schema, name, commands = [] } of tables) {
    if (commands.length > 0) terminal.print(oneLine(`${schema}.${name} needs at the sink:`));
    for (const sql of commands) terminal.print(oneLine(`  ${sql}`));
  }
}
