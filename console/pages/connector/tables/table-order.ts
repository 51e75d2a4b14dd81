// Which tables are shown, and in which order. Pure.

import type { TableState, TableStatus } from "../../../../src/connector/table-status.ts";
import type { Tone } from "../../../connector/condition.ts";

/** What needs somebody comes first, then what is being done, then the rest. */
export const tableStates: readonly TableState[] = [
  "SetAside",
  "Unreadable",
  "Copying",
  "Waiting",
  "Streaming",
  "Excluded",
];

const words: Readonly<Record<TableState, readonly [tone: Tone, word: string]>> = {
  SetAside: ["warning", "Set aside"],
  Unreadable: ["warning", "Unreadable"],
  Copying: ["busy", "Copying"],
  Waiting: ["idle", "Waiting"],
  Streaming: ["good", "Streaming"],
  Excluded: ["idle", "Excluded"],
};

export function tableTone(state: TableState): Tone {
  return words[state][0];
}

/** `isStreaming` false: the connector only copies, so a table that is there is copied, and nothing streams. */
export function tableWord(state: TableState, isStreaming: boolean): string {
  return state === "Streaming" && !isStreaming ? "Copied" : words[state][1];
}

export function needsSomebody({ state }: TableStatus): boolean {
  return state === "SetAside" || state === "Unreadable";
}

/** Within a state the order stays as the service has it: by schema and name. */
export function ordered(tables: readonly TableStatus[]): TableStatus[] {
  return tableStates.flatMap((state) => tables.filter((table) => table.state === state));
}

export function countByState(tables: readonly TableStatus[]): ReadonlyMap<TableState, number> {
  const counts = new Map<TableState, number>();
  for (const { state } of tables) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}

/** `state` null: all. */
export function matchingTables(
  tables: readonly TableStatus[],
  { text, state }: { readonly text: string; readonly state: TableState | null },
): TableStatus[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  return tables.filter((table) => {
    if (state !== null && table.state !== state) return false;
    const haystack = `${table.schema}.${table.name}`.toLowerCase();
    return wanted.every((word) => haystack.includes(word));
  });
}

/** Names a table among others: no two have the same. */
export function tableKey({ schema, name }: Pick<TableStatus, "schema" | "name">): string {
  return JSON.stringify([schema, name]);
}
