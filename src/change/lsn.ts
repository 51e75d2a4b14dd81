// Log sequence numbers: a byte address in the write-ahead log.
// https://www.postgresql.org/docs/current/datatype-pg-lsn.html

import { MillraceError } from "../errors/millrace-error.ts";

declare const lsnBrand: unique symbol;

/** An unsigned 64-bit WAL address. Only `formatLsn` prints it. */
export type Lsn = bigint & { readonly [lsnBrand]: true };

export const zeroLsn = 0n as Lsn;
/** No commit has it. */
export const lastLsn = 0xffffffffffffffffn as Lsn;

export function lsn(value: bigint): Lsn {
  return value as Lsn;
}

/** Reads `16/B374D848`. Throws `protocol_violation` on anything else. */
export function parseLsn(text: string): Lsn {
  const match = /^([0-9A-Fa-f]{1,8})\/([0-9A-Fa-f]{1,8})$/.exec(text);
  if (!match) throw new MillraceError("protocol_violation", `not an LSN: ${text.slice(0, 40)}`);
  return ((BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`)) as Lsn;
}

/** `16/B374D848`, as Postgres prints it. */
export function formatLsn(value: Lsn): string {
  const high = (value >> 32n).toString(16).toUpperCase();
  const low = (value & 0xffffffffn).toString(16).toUpperCase();
  return `${high}/${low}`;
}
