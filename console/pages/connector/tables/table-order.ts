// Which tables are shown, and in which order. Pure.

import type { TableState, TableStatus } from "../../../../src/connector/table-status.ts";
import type { Tone } from "../../../connector/condition.ts";

/** Where a table stands, for people. `Refused`: it waits, as the sink does not take it as it is. */
export type TableStand = TableState | "Refused";

/** What needs somebody comes first, then what is being done, then the rest. */
export const tableStands: readonly TableStand[] = [
  "Refused",
  "SetAside",
  "Unreadable",
  "Copying",
  "Resuming",
  "Waiting",
  "Streaming",
  "Excluded",
];

const words: Readonly<Record<TableStand, readonly [tone: Tone, word: string]>> = {
  Refused: ["bad", "Needs you"],
  SetAside: ["warning", "Set aside"],
  Unreadable: ["warning", "Unreadable"],
  Copying: ["busy", "Copying"],
  Resuming: ["warning", "Resuming"],
  Waiting: ["idle", "Waiting"],
  Streaming: ["good", "Streaming"],
  Excluded: ["idle", "Excluded"],
};

/** A table that waits for its turn has no reason to give. One that was set aside waits for its copy once its cause is gone. */
export function tableStand({
  state,
  reason,
  copied_again: isCopiedAgain,
}: Pick<TableStatus, "state" | "reason" | "copied_again">): TableStand {
  if (isCopiedAgain) return "Waiting";
  return state === "Waiting" && reason !== undefined ? "Refused" : state;
}

export function standTone(stand: TableStand): Tone {
  return words[stand][0];
}

/** `isStreaming` false: the connector only copies, so a table that is there is copied, and nothing streams. */
export function standWord(stand: TableStand, isStreaming: boolean): string {
  return stand === "Streaming" && !isStreaming ? "Copied" : words[stand][1];
}

export function needsSomebody(table: TableStatus): boolean {
  return ["Refused", "SetAside", "Unreadable"].includes(tableStand(table));
}

/** Tables without which the sink does not begin: all others wait for them. */
export function refusedTables(tables: readonly TableStatus[]): TableStatus[] {
  return tables.filter((table) => tableStand(table) === "Refused");
}

/** The one thing that can be done about a table; null: nothing is to be done. */
export type TableAction =
  | { readonly does: "copy"; readonly word: "Copy now" | "Copy again" }
  /** Leads to its reason and its remedy. */
  | { readonly does: "explain"; readonly word: "What to do" | "Why?" };

/** A table that is set aside or refused is copied by itself once its cause is gone: to ask for a copy before is in vain. */
export function tableAction(table: TableStatus, mayWrite: boolean): TableAction | null {
  if (needsSomebody(table)) return { does: "explain", word: "What to do" };
  if (table.state === "Excluded") return table.reason ? { does: "explain", word: "Why?" } : null;
  if (table.state === "Resuming") return { does: "explain", word: "Why?" };
  if (!mayWrite || table.state === "Copying" || table.copied_again) return null;
  return { does: "copy", word: table.state === "Waiting" ? "Copy now" : "Copy again" };
}

/** Within a state the order stays as the service has it: by schema and name. */
export function ordered(tables: readonly TableStatus[]): TableStatus[] {
  return tableStands.flatMap((stand) => tables.filter((table) => tableStand(table) === stand));
}

export function countByStand(tables: readonly TableStatus[]): ReadonlyMap<TableStand, number> {
  const counts = new Map<TableStand, number>();
  for (const table of tables) {
    const stand = tableStand(table);
    counts.set(stand, (counts.get(stand) ?? 0) + 1);
  }
  return counts;
}

/** `stand` null: all. */
export function matchingTables(
  tables: readonly TableStatus[],
  { text, stand }: { readonly text: string; readonly stand: TableStand | null },
): TableStatus[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  return tables.filter((table) => {
    if (stand !== null && tableStand(table) !== stand) return false;
    const haystack = `${table.schema}.${table.name}`.toLowerCase();
    return wanted.every((word) => haystack.includes(word));
  });
}

/** Names a table among others: no two have the same. */
export function tableKey({ schema, name }: Pick<TableStatus, "schema" | "name">): string {
  return JSON.stringify([schema, name]);
}
