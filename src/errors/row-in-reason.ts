// A reason names the row that a sink has refused, for who has to find it; a log names no row. Both know how it is written.

/** ` The row is (id)=(7)`: behind a reason, for what follows. `key`: as `(a, b)=(1, x)`. */
export const rowOf = (key: string) => ` The row is ${key}`;
/** ` It is row 3 of the copy: (id)=(7)` */
export const rowOfCopy = (row: number, key: string) => ` It is row ${row} of the copy: ${key}`;
/** Behind a row of the stream. */
export const ofTransaction = (lsn: string) => `, of the transaction that was committed at ${lsn}.`;

/** From the row's names to the last place that can be its end: a value may read like one. */
const row =
  /(The row is|of the copy:) \([\s\S]*\)=\([\s\S]*\)(?=, of the transaction that was committed at |\.)/;

/** `reason` without the row's names and values. */
export function withoutRow(reason: string): string {
  return reason.replace(row, "$1 (told by the status)");
}
