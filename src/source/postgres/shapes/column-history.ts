// What is known of the columns that a table had at a position in the stream, from reads of the catalog before and after
// that position, and from the shapes that the stream has brought. Pure.

import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { RememberedColumn } from "./column-changes.ts";

export interface ColumnHistory {
  /** Names that the column is known to have had. */
  formerNames(number: number): readonly string[];
  /** Column numbers in ascending order. */
  readonly numbers: readonly number[];
  /** The column was dropped before that position. */
  isGone(number: number): boolean;
  /** Nobody read the column before that position: if it existed, its name is unknown. */
  isNew(number: number): boolean;
  /** The column, in this version, already had its present name then. */
  isUnchanged(number: number, version: string): boolean;
}

/** `streamed`: the last shape that the stream brought before `at`, the commit record of the transaction in question. */
export function columnHistory(
  remembered: readonly RememberedColumn[],
  streamed: Relation | undefined,
  at: Lsn,
): ColumnHistory {
  const known = new Map(remembered.map((column) => [column.number, column]));
  const streamedNames = new Map(streamed?.columns.map(({ number, name }) => [number, name]));
  const carried = new Set([...streamedNames.keys(), ...(streamed?.withheld ?? [])]);
  const last = Math.max(0, ...carried);
  const isBefore = (lsnText: string | null | undefined) => !!lsnText && parseLsn(lsnText) <= at;
  return {
    formerNames: (number) => {
      const { formerNames = [], name = "" } = known.get(number) ?? {};
      return [...formerNames, name, streamedNames.get(number) ?? ""].filter((each) => each !== "");
    },
    numbers: [...new Set([...known.keys(), ...streamedNames.keys()])].sort((a, b) => a - b),
    // Column numbers only rise: one below the highest that the stream has brought does not come again.
    isGone: (number) => (number <= last && !carried.has(number)) || isBefore(known.get(number)?.goneAt),
    isUnchanged: (number, version) => {
      const column = known.get(number);
      return column?.version === version && isBefore(column.steadyAt);
    },
    isNew: (number) => !carried.has(number) && !isBefore(known.get(number)?.seenAt),
  };
}
