// Which ranges of copies still count when a run looks at its tables.

import { expect, test } from "bun:test";
import type { TableShape } from "../../../../src/change/relation.ts";
import { begunCopy, rangesMark, replayMark } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { chunkedOf } from "../../../../src/sink/delivery/record/sink-record.ts";
import { relation, tableShape } from "../../../support/rows/batch-fixture.ts";

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
