// Names a table's history at the sink: the table that takes it, its view of versions, and its own columns. Pure.

import { createHash } from "node:crypto";
import { type Column, isSystemColumn } from "../../../change/relation.ts";
import { maxNameBytes, type TargetName } from "../schema/target-name.ts";

const versionsSuffix = "_versions";

/** The comments that mark what millrace has made for a history. */
export const versionsComment = "made by millrace: from when until when each version of a row was there";
export const historyKeyComment = "made by millrace: follows the key of the table whose history this is";

/** A history's own columns, behind the table's. In the order in which rows bring them. */
export const historyColumns = [
  { name: "_sm_op", type: "text" },
  { name: "_sm_committed_at", type: "timestamp with time zone" },
  { name: "_sm_lsn", type: "pg_lsn" },
  { name: "_sm_ordinal", type: "bigint" },
] as const;

export const historyColumnNames: readonly string[] = historyColumns.map(({ name }) => name);

/** `r`: the row as it was found, `c`: inserted, `u`: updated, `d`: deleted, `t`: the table was truncated. */
export type HistoryOp = "r" | "c" | "u" | "d" | "t";

export function historyName(target: TargetName, suffix: string): TargetName {
  return { schema: target.schema, name: withSuffix(target.name, suffix) };
}

export function versionsName(target: TargetName): TargetName {
  return { schema: target.schema, name: withSuffix(target.name, versionsSuffix) };
}

/** A name that would be too long is cut, and gets a hash of the whole, so that two of them stay two. */
export function withSuffix(name: string, suffix: string): string {
  if (Buffer.byteLength(name + suffix) <= maxNameBytes) return name + suffix;
  const hash = createHash("sha256")
    .update(name + suffix)
    .digest("hex")
    .slice(0, 8);
  const end = cutTo(`_${hash}${suffix}`, maxNameBytes);
  return cutTo(name, maxNameBytes - Buffer.byteLength(end)) + end;
}

/** The longest beginning of so many bytes, in whole characters. */
function cutTo(text: string, bytes: number): string {
  let [kept, length] = ["", 0];
  for (const character of text) {
    length += Buffer.byteLength(character);
    if (length > bytes) break;
    kept += character;
  }
  return kept;
}

/** Columns that say where a row comes from are no part of it. A history has its own. */
export function hasHistory(column: Column): boolean {
  return !isSystemColumn(column);
}

/** The name `name_before_1`, or with the next number that is free. */
export function nameBefore(name: string, isTaken: (name: string) => boolean): string {
  for (let i = 1; ; i++) {
    const before = withSuffix(name, `_before_${i}`);
    if (!isTaken(before)) return before;
  }
}
