// What is known of the columns that a table had at a place in the stream: from the looks at the catalog before and behind that
// place, and from the shapes that the stream brought on its way there. Pure.

import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { RememberedColumn } from "./column-changes.ts";

export interface ColumnHistory {
  /** Names that the column is known to have had. */
  formerNames(number: number): readonly string[];
  /** In rising order. */
  readonly numbers: readonly number[];
  /** The column was dropped before the place. */
  isGone(number: number): boolean;
  /** Nobody has seen the column up to the place: if it was there, nothing is known of its name. */
  isNew(number: number): boolean;
  /** The column, of this version now, had the name then that it has now. */
  isSteady(number: number, version: string): boolean;
}

/** `met`: the shape that the stream brought last before `at`, the commit record of the transaction in question. */
export function columnHistory(
  remembered: readonly RememberedColumn[],
  met: Relation | undefined,
  at: Lsn,
): ColumnHistory {
  const known = new Map(remembered.map((column) => [column.number, column]));
  const metNames = new Map(met?.columns.map(({ number, name }) => [number, name]));
  const carried = new Set([...metNames.keys(), ...(met?.withheld ?? [])]);
  const last = Math.max(0, ...carried);
  const isBefore = (place: string | null | undefined) => !!place && parseLsn(place) <= at;
  return {
    formerNames: (number) => {
      const { formerNames = [], name = "" } = known.get(number) ?? {};
      return [...formerNames, name, metNames.get(number) ?? ""].filter((each) => each !== "");
    },
    numbers: [...new Set([...known.keys(), ...metNames.keys()])].sort((a, b) => a - b),
    // No number comes back that the stream has gone beyond.
    isGone: (number) => (number <= last && !carried.has(number)) || isBefore(known.get(number)?.goneAt),
    isSteady: (number, version) => {
      const column = known.get(number);
      return column?.version === version && isBefore(column.steadyAt);
    },
    isNew: (number) => !carried.has(number) && !isBefore(known.get(number)?.seenAt),
  };
}
