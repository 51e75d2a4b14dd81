// Entries of parked messages, and rows, at places that are small numbers. Their versions are the same numbers.

import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import type { ParkedEntry } from "../../../src/connector/parking.ts";
import type { RowPoint } from "../../../src/sink/delivery/parking/row-place.ts";

export const rowAt = (n: number): RowPoint => ({ place: BigInt(n), version: n });

/** Of one row; without hashes it may be any of the table. */
export function parkedEntry(
  id: string,
  place: number,
  hashes: readonly number[],
  change: Partial<ParkedEntry> = {},
): ParkedEntry {
  return {
    id,
    schema: "public",
    table: "t",
    hashes,
    isWide: hashes.length === 0,
    bytes: 3,
    isOfCopy: false,
    places: [BigInt(place)],
    firstRows: null,
    ...change,
  };
}

/** Nothing comes again. */
export const allPassed: Checkpoint = {
  resumeLsn: lsn(2n ** 63n),
  partial: null,
  lastVersion: BigInt(Number.MAX_SAFE_INTEGER),
};
