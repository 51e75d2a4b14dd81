import { expect, test } from "bun:test";
import { fillUnchanged, unchangedAsNull, unchangedColumns } from "../../src/change/tuple.ts";
import { type TextTuple, tupleBytes, unchanged } from "../support/batch-fixture.ts";

const bytes = (tuple: TextTuple) => tupleBytes(tuple);
/** As tuples lie in an arena: something stands before them. */
const behind = (tuple: TextTuple) => Uint8Array.from([1, 2, 3, ...bytes(tuple)]);

test("unchanged columns are found, filled from another tuple, and made null", () => {
  const tuple = behind(["a", unchanged, null, unchanged]);
  const base = behind(["x", "big", "y", "long"]);
  expect(unchangedColumns(tuple, 3)).toEqual([1, 3]);
  expect([...fillUnchanged(tuple, 3, base, 3)]).toEqual([...bytes(["a", "big", null, "long"])]);
  expect([...unchangedAsNull(tuple, 3)]).toEqual([...bytes(["a", null, null, null])]);
});

test("what the base does not know either stays unchanged", () => {
  // An old tuple that holds the key alone has null in the other columns.
  const filled = fillUnchanged(bytes(["a", unchanged, unchanged]), 0, bytes(["b", unchanged, null]), 0);
  expect(unchangedColumns(filled, 0)).toEqual([1, 2]);
});

test("an empty string is neither null nor unchanged", () => {
  expect(unchangedColumns(bytes(["", null]), 0)).toEqual([]);
  expect([...unchangedAsNull(bytes([""]), 0)]).toEqual([...bytes([""])]);
});
