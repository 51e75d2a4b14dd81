import { expect, test } from "bun:test";
import {
  partChange,
  type RememberedParts,
  rememberParts,
  type TypeParts,
} from "../../../../src/source/postgres/catalog/type-parts.ts";

/** What is told of each look but the first. */
function looks(areFollowed: boolean, ...seen: readonly TypeParts[]): (string | null)[] {
  let before: RememberedParts | undefined;
  return seen.flatMap((parts) => {
    const now = rememberParts(before, parts);
    const change = before ? partChange(before, now, areFollowed) : [];
    before = now;
    return change;
  });
}

test("labels that are renamed or added are followed, but told where they are not", () => {
  const seen = [{ "label 1": "a" }, { "label 1": "b" }, { "label 1": "b", "label 2": "c" }];
  expect(looks(true, ...seen)).toEqual([null, null]);
  expect(looks(false, ...seen)).toEqual(["had labels renamed", null]);
});

test("a label that gets the name of another is told once, also when that gave it up long before", () => {
  const taken = "got labels that were called otherwise before";
  expect(looks(true, { "label 1": "a", "label 2": "b" }, { "label 1": "b", "label 2": "a" })).toEqual([
    taken,
  ]);
  const seen = [{ "label 1": "a" }, { "label 1": "b" }, { "label 1": "b", "label 2": "a" }];
  expect(looks(true, ...seen, seen[2]!)).toEqual([null, taken, null]);
  expect(looks(true, { "label 1": "a" }, { "label 1": "b" }, { "label 1": "a" })).toEqual([null, null]);
});

test("an attribute that is dropped is told; one that is added or renamed is not", () => {
  const seen = [{ "1 of c": "x" }, { "1 of c": "y", "2 of c": "z" }, { "2 of c": "z", "3 of c": "y" }];
  expect(looks(true, ...seen)).toEqual([null, "lost an attribute"]);
});
