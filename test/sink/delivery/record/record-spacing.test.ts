// How far apart saves of the record begin: requests wait for them.

import { expect, test } from "bun:test";
import { zeroLsn } from "../../../../src/change/lsn.ts";
import { RecordKeeper, spacingOf } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import type { SinkRecord } from "../../../../src/sink/delivery/record/sink-record.ts";

const record: SinkRecord = {
  checkpoint: { resumeLsn: zeroLsn, partial: null, lastVersion: 0n },
  log: null,
  origin: { lsn: zeroLsn, version: 0n },
  windowEnds: [],
  reached: null,
  versionSteps: [],
  ...noTables,
};

/** When each of `count` saves began that were asked for one after the other, in milliseconds from the first. */
async function begun(count: number, spacingMs: number): Promise<readonly number[]> {
  const at: number[] = [];
  const store = { save: async () => void at.push(performance.now()) };
  const keeper = new RecordKeeper(
    store,
    record,
    new SavedTables(noTables),
    performance.now.bind(performance),
    spacingMs,
  );
  for (let i = 0; i < count; i++) await keeper.save();
  return at.map((ms) => ms - at[0]!);
}

test("by default many requests share a save; where batches wait for less, saves come sooner", () => {
  expect([100, 40, 8, 1].map((flushMs) => spacingOf(flushMs))).toEqual([10, 10, 2, 0.25]);
  expect([200, 100, 40, 1].map((flushMs) => spacingOf(flushMs, true))).toEqual([25, 25, 10, 0.25]);
});

test("saves begin as far apart as they are to, and no further", async () => {
  // A busy machine starts a save late: the longest of some for the one bound, the quickest for the other.
  expect(Math.max(...(await lastOfSix(10)))).toBeGreaterThan(45);
  expect(Math.min(...(await lastOfSix(1)))).toBeLessThan(40);
});

/** When the last of six saves began, in five tries. */
async function lastOfSix(spacingMs: number): Promise<readonly number[]> {
  const tries: number[] = [];
  while (tries.length < 5) tries.push((await begun(6, spacingMs)).at(-1)!);
  return tries;
}
