// The letter of each operation, as Debezium has it in `op`, and receipts in what they tell of a row.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-create-events

import type { RowOperation } from "./row-encoder.ts";

export const operationLetters = {
  create: "c",
  update: "u",
  delete: "d",
  read: "r",
  truncate: "t",
} as const satisfies Readonly<Record<RowOperation, string>>;

export type OperationLetter = (typeof operationLetters)[RowOperation];

export const operations = Object.keys(operationLetters) as readonly RowOperation[];

/** The letter's byte, for each operation. */
export const operationBytes = Object.fromEntries(
  operations.map((operation) => [operation, operationLetters[operation].charCodeAt(0)]),
) as Readonly<Record<RowOperation, number>>;

/** Undefined: it is no operation's letter. */
export function operationOfLetter(letter: string): RowOperation | undefined {
  return operations.find((operation) => operationLetters[operation] === letter);
}
