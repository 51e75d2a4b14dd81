// Plans how a history follows the columns of its table. Nothing is dropped, and no value is changed: what cannot follow gets another name, and
// a new column takes its place. Pure; history-schema.ts makes the changes.

import { isReplacedType } from "../types/replaced-type.ts";
import type { FollowedHistoryColumn } from "./history-ledger.ts";
import { nameBefore, withSuffix } from "./history-naming.ts";

/** A column of the table, as its history is to have it. */
export interface WantedColumn extends FollowedHistoryColumn {
  /** The value that existing rows got when the column was added; null: none. */
  readonly addedValue: string | null;
}

export type HistoryChange =
  | { readonly kind: "rename"; readonly from: string; readonly to: string }
  /** `aside`: the name that the column gets where a value cannot be converted and back. */
  | { readonly kind: "retype"; readonly name: string; readonly type: string; readonly aside: string }
  /** `isAnew`: the column of that name that rows have had so far was set aside. */
  | {
      readonly kind: "add";
      readonly name: string;
      readonly type: string;
      readonly value: string | null;
      readonly isAnew?: true;
    };

/** A column of the history whose type somebody has altered. */
export interface AlteredColumn {
  readonly name: string;
  readonly type: string;
}

/** A column as it is at the sink. */
type StoredColumn = Pick<FollowedHistoryColumn, "name" | "type">;

export interface HistoryPlan {
  readonly changes: readonly HistoryChange[];
  readonly altered: readonly AlteredColumn[];
}

/** `current`: the history's columns. `followed`: what it has followed so far. */
export function planHistory(
  current: readonly StoredColumn[],
  followed: readonly FollowedHistoryColumn[],
  wanted: readonly WantedColumn[],
): HistoryPlan {
  const types = new Map(current.map(({ name, type }) => [name, type]));
  const before = new Map(wanted.map((column) => [column, formerColumn(column, followed, types)]));
  const changes: HistoryChange[] = planRenames(types, wanted, before);
  const altered: AlteredColumn[] = [];
  const taken = (name: string) => types.has(name) || wanted.some((column) => column.name === name);
  for (const column of wanted) {
    const { name, type, addedValue } = column;
    const there = types.get(name);
    if (there === undefined) changes.push({ kind: "add", name, type, value: addedValue });
    else if (there !== type) {
      const known = before.get(column)?.type ?? there;
      // Somebody has altered it, unless millrace has renamed its type to make one of that name anew.
      if (known === there || isReplacedType(there))
        changes.push({ kind: "retype", name, type, aside: nameBefore(name, taken) });
      else altered.push({ name, type });
    }
  }
  return { changes, altered };
}

/** What the column was called so far; null: it is new. A column without a number is known by its name. */
function formerColumn(
  { number, name, sourceType }: WantedColumn,
  followed: readonly FollowedHistoryColumn[],
  types: ReadonlyMap<string, string>,
): FollowedHistoryColumn | null {
  const numbered = followed.filter((column) => number > 0 && column.number === number);
  // A kept one comes back where changes of an older shape of the table came in between.
  const same =
    numbered.find(({ isKept }) => !isKept) ?? numbered.find((column) => column.sourceType === sourceType);
  if (same && types.has(same.name)) return same;
  const named = followed.find((column) => column.name === name);
  const isSame = named === undefined || (!named.isKept && (named.number <= 0 || number <= 0));
  if (!isSame || !types.has(name)) return null;
  return named ?? { number, name, type: types.get(name) ?? "", sourceType: "" };
}

/** Frees the names of columns that are gone at the source, and gives each column its own. `types` follows. */
function planRenames(
  types: Map<string, string>,
  wanted: readonly WantedColumn[],
  before: ReadonlyMap<WantedColumn, FollowedHistoryColumn | null>,
): HistoryChange[] {
  const changes: HistoryChange[] = [];
  const rename = (from: string, to: string) => {
    changes.push({ kind: "rename", from, to });
    types.set(to, types.get(from) ?? "");
    types.delete(from);
  };
  const moved = wanted.flatMap((column) => {
    const from = before.get(column)?.name;
    return from !== undefined && from !== column.name ? [{ from, to: column.name }] : [];
  });
  const isTaken = (name: string) => types.has(name) || wanted.some((column) => column.name === name);
  // Names may have been swapped: each gets one of its own first.
  const onTheWay = moved.map(({ from, to }, i) => ({
    now: withSuffix("millrace_renamed", `_${i}`),
    from,
    to,
  }));
  const isSwapped = moved.some(({ to }) => moved.some(({ from }) => from === to));
  if (isSwapped) for (const { now, from } of onTheWay) rename(from, now);
  const stays = new Set(wanted.flatMap((column) => before.get(column)?.name ?? []));
  for (const column of wanted) {
    const isOthers = before.get(column)?.name !== column.name && types.has(column.name);
    if (isOthers && (isSwapped || !stays.has(column.name)))
      rename(column.name, nameBefore(column.name, isTaken));
  }
  for (const { now, from, to } of onTheWay) rename(isSwapped ? now : from, to);
  return changes;
}

/** The history's own columns that are not there, or of another type. */
export function lostColumns(
  current: readonly StoredColumn[],
  own: readonly { readonly name: string; readonly type: string }[],
): readonly string[] {
  return own
    .filter(({ name, type }) => !current.some((column) => column.name === name && column.type === type))
    .map(({ name }) => name);
}

/** What the history follows behind the changes. Columns that the table no longer has are kept, under the names that they have then. */
export function followedBehind(
  followed: readonly FollowedHistoryColumn[],
  wanted: readonly WantedColumn[],
  made: readonly HistoryChange[],
): readonly FollowedHistoryColumn[] {
  const now = wanted.map(({ number, name, type, sourceType }) => {
    const isAnew = isBegunAnew(name, followed, made);
    return { number, name, type, sourceType, ...(isAnew ? { isBegunAnew: true as const } : {}) };
  });
  const kept = followed.map((column) => ({
    ...column,
    name: nameBehind(column.name, made),
    isKept: true as const,
  }));
  return [...now, ...kept.filter(({ name }) => !now.some((column) => column.name === name))];
}

/** `made` has a column of the name that was set aside and added again, or it was so before. */
function isBegunAnew(
  name: string,
  followed: readonly FollowedHistoryColumn[],
  made: readonly HistoryChange[],
): boolean {
  const isAdded = made.some((change) => change.kind === "add" && change.name === name && change.isAnew);
  return isAdded || followed.some((column) => column.isBegunAnew && nameBehind(column.name, made) === name);
}

function nameBehind(name: string, made: readonly HistoryChange[]): string {
  let now = name;
  for (const change of made) if (change.kind === "rename" && change.from === now) now = change.to;
  return now;
}
