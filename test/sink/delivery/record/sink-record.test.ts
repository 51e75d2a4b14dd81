// Which ranges of copies still count when a run looks at its tables, and where changes go on.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import type { TableShape } from "../../../../src/change/relation.ts";
import { begunCopy, rangesMark, replayMark } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import {
  begunRecord,
  chunkedOf,
  formatRecord,
  parseRecord,
  stepsOf,
} from "../../../../src/sink/delivery/record/sink-record.ts";
import { relation, tableShape } from "../../../support/batch-fixture.ts";

const table = tableShape(relation("t", [["id", 23, "integer"]]));

test("ranges that were sent again count for a table without a copy, as under skip_snapshots, while it is the same table", () => {
  const areKept = (mark: string, tables: readonly TableShape[]) =>
    chunkedOf(new Map([["public.t", begunCopy(mark, "again")]]), new Map(), tables).size === 1;
  expect(areKept(replayMark(table, "task"), [table])).toBe(true);
  expect(areKept(rangesMark(table), [table])).toBe(false);
  expect(areKept(replayMark(table, "task"), [{ ...table, storage: "2" }])).toBe(false);
  expect(areKept(replayMark(table, "task"), [])).toBe(false);
  const coverage = { excluded: [], isListed: false, isUnpublished: true };
  expect(areKept(replayMark(table, "task"), [{ ...table, coverage }])).toBe(false);
});

test("changes go on above the last version that was given out, in its place among those of copies; earlier builds did not note it", () => {
  const at = (ordinal: number) => ({ commitLsn: lsn(0x2000n), ordinal });
  const record = {
    ...begunRecord({ resumeLsn: lsn(0x1000n), partial: null, lastVersion: 1n }),
    reached: { ...at(2), version: 20n },
    versionSteps: [1, 3].map((n) => ({ behind: at(n), version: BigInt(10 * n) })),
  };
  const read = (text: string) => {
    const stored = parseRecord({ text, parts: new Map() });
    if (stored.kind !== "begun") throw new Error("it was not forgotten");
    return stepsOf(stored.record).map(({ version }) => version);
  };
  const text = formatRecord(record);
  expect(read(text)).toEqual([10n, 20n, 30n]);
  const { reached, ...rest } = JSON.parse(text);
  expect(read(JSON.stringify({ ...rest, reached: { ...reached, version: undefined } }))).toEqual([
    10n,
    0n,
    30n,
  ]);
});
