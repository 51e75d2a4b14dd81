import { expect, test } from "bun:test";
import {
  fillUnchanged,
  keyOnlyTuple,
  newTuple,
  tupleColumns,
  unchangedColumns,
} from "../../src/change/tuple.ts";
import {
  batches,
  relation,
  type TextTuple,
  transaction,
  tupleBytes,
  unchanged,
} from "../support/rows/batch-fixture.ts";

const bytes = (tuple: TextTuple) => tupleBytes(tuple);
/** In an arena a tuple has other bytes before it. */
const behind = (tuple: TextTuple) => Uint8Array.from([1, 2, 3, ...bytes(tuple)]);

test("unchanged columns are found, and filled from another tuple", () => {
  const tuple = behind(["a", unchanged, null, unchanged]);
  const base = behind(["x", "big", "y", "long"]);
  expect(unchangedColumns(tuple, 3)).toEqual([1, 3]);
  expect([...fillUnchanged(tuple, 3, base, 3)]).toEqual([...bytes(["a", "big", null, "long"])]);
});

test("a column that the base does not have either stays unchanged", () => {
  // An old tuple that contains only the key has null in the other columns.
  const filled = fillUnchanged(bytes(["a", unchanged, unchanged]), 0, bytes(["b", unchanged, null]), 0);
  expect(unchangedColumns(filled, 0)).toEqual([1, 2]);
});

test("an empty string is neither null nor unchanged", () => {
  expect(unchangedColumns(bytes(["", null]), 0)).toEqual([]);
});

const table = relation("t", [
  ["id", 25, "text"],
  ["note", 25, "text"],
  ["body", 25, "text"],
]);

function taken(before: TextTuple, after: TextTuple, longest?: number) {
  const [batch] = batches([transaction(1, [{ kind: "update", relation: table, before, after }])]);
  const { bytes, start, end } = newTuple(batch!, 0, table.key, longest);
  return { isCopy: bytes !== batch!.arena, tuple: [...bytes.subarray(start, end)] };
}

test("a new row is not copied if nothing is filled in", () => {
  const whole = ["a", "n", "b"];
  expect(taken(["k", "o", "c"], whole)).toEqual({ isCopy: false, tuple: [...bytes(whole)] });
  const part: TextTuple = ["a", unchanged, "b"];
  expect(taken(["k", "o", "c"], part)).toEqual({ isCopy: true, tuple: [...bytes(["a", "o", "b"])] });
  expect(taken(["k", "long", "c"], part, 3)).toEqual({ isCopy: false, tuple: [...bytes(part)] });
  // The key is always filled in, because only it identifies the row.
  const keyless: TextTuple = [unchanged, unchanged, "b"];
  expect(taken(["key", "long", "c"], keyless, 2)).toEqual({
    isCopy: true,
    tuple: [...bytes(["key", unchanged, "b"])],
  });
});

test("a long new row keeps unchanged values of the sink, unless it must be complete", () => {
  const body = "b".repeat(1024 * 1024);
  expect(taken(["a", "o", "c"], ["a", unchanged, body], 100).isCopy).toBe(false);
  const whole = taken(["a", "o", "c"], ["a", unchanged, body]);
  expect(whole).toEqual({ isCopy: true, tuple: [...bytes(["a", "o", body])] });
});

test("packed values are skipped, and taken as they are", () => {
  const packed = bytes(["a", "0123", "c"]);
  // After the count, the first column and the length of the second.
  packed[2 + 5] = packed[2 + 5]! | 0x40;
  expect(tupleColumns(packed, 0)).toEqual([
    { length: 1, start: 6, isPacked: false },
    { length: 4, start: 11, isPacked: true },
    { length: 1, start: 19, isPacked: false },
  ]);
  expect([...fillUnchanged(bytes(["a", unchanged, "c"]), 0, packed, 0)]).toEqual([...packed]);
  expect([...keyOnlyTuple(packed, 0, [2])]).toEqual([...bytes([null, null, "c"])]);
});
