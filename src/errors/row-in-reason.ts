// How a reason names the row, or the message's key, that a sink has refused, so that somebody can find it; and how a log removes that again.

import { quoted, withoutAnswer } from "./answer-in-reason.ts";

/** ` The row is (id)=(7)`, appended to a reason. `key`: as `(a, b)=(1, x)`. */
export const rowOf = (key: string) => ` The row is ${key}`;
/** ` It is row 3 of the copy: (id)=(7)` */
export const rowOfCopy = (row: number, key: string) => ` It is row ${row} of the copy: ${key}`;
/** Appended after a row of the stream. */
export const ofTransaction = (lsn: string) => `, of the transaction that was committed at ${lsn}.`;

/** `key “{"id":7}”`. Null: the message has none. */
export const messageKey = (key: string | null) => (key === null ? "key none" : `key ${quoted(key)}`);

/** Greedy up to the last possible end, because a value may look like one. */
const row =
  /(The row is|of the copy:) \([\s\S]*\)=\([\s\S]*\)(?=, of the transaction that was committed at |\.)/;

/** `reason` without the row's columns and values. */
function withoutRow(reason: string): string {
  return reason.replace(row, "$1 (told by the status)");
}

/** A reason may be cut off amid it. */
function withoutKey(reason: string): string {
  return reason.replaceAll(/\bkey “[^”]*(?:”|$)/g, "key (told by the status)");
}

/** `reason` without any value: of the row, of its key, and of what a receiver said. */
export function withoutValues(reason: string): string {
  return withoutKey(withoutRow(withoutAnswer(reason)));
}
