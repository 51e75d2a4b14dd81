import { expect, test } from "bun:test";
import { projectBatch } from "../../src/change/batch-projection.ts";
import type { ChangeBatch } from "../../src/change/change-batch.ts";
import {
  batches,
  relation,
  type TextTuple,
  transaction,
  tupleBytes,
  unchanged,
} from "../support/rows/batch-fixture.ts";

const three = relation("three", [
  ["a", 25, "text"],
  ["b", 25, "text"],
  ["c", 25, "text"],
]);
const other = relation("other", [["a", 25, "text"]], { id: 2 });

function tuples({ arena, count, oldStart, oldEnd, newStart, newEnd }: ChangeBatch) {
  return Array.from({ length: count }, (_, i) => [
    [...arena.subarray(oldStart[i], oldEnd[i])],
    [...arena.subarray(newStart[i], newEnd[i])],
  ]);
}
const bytes = (tuple: TextTuple) => [...tupleBytes(tuple)];

test("columns are removed from old and new rows in place", () => {
  const [batch] = batches([
    transaction(1, [
      { kind: "insert", relation: three, after: ["1", "dropped", null] },
      { kind: "insert", relation: other, after: ["whole"] },
      { kind: "update", relation: three, before: ["1", "d", "x"], after: ["2", unchanged, unchanged] },
      { kind: "delete", relation: three, before: ["2", null, ""] },
    ]),
  ]);
  const keep = batch!.relations.map(({ name }) => (name === "three" ? [true, false, true] : null));
  const projected = projectBatch(batch!, batch!.relations, keep);
  expect(projected.arena).toBe(batch!.arena);
  expect(tuples(projected)).toEqual([
    [[], bytes(["1", null])],
    [[], bytes(["whole"])],
    [bytes(["1", "x"]), bytes(["2", unchanged])],
    [bytes(["2", ""]), []],
  ]);
});

test("a batch without columns to remove is unchanged", () => {
  const [batch] = batches([transaction(1, [{ kind: "insert", relation: other, after: ["whole"] }])]);
  const before = tuples(batch!);
  expect(tuples(projectBatch(batch!, batch!.relations, [null]))).toEqual(before);
});
