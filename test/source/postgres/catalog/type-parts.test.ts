import { expect, test } from "bun:test";
import {
  partChange,
  type RememberedParts,
  rememberParts,
  type TypeParts,
} from "../../../../src/source/postgres/catalog/type-parts.ts";

/** The warnings of each read after the first. */
function warnings(areFollowed: boolean, ...seen: readonly TypeParts[]): (string | null)[] {
  let before: RememberedParts | undefined;
  return seen.flatMap((parts) => {
    const now = rememberParts(before, parts);
    const change = before ? partChange(before, now, areFollowed) : [];
    before = now;
    return change;
  });
}

test("labels that are renamed or added are followed, or warned of if they are not followed", () => {
  const seen = [{ "label 1": "a" }, { "label 1": "b" }, { "label 1": "b", "label 2": "c" }];
  expect(warnings(true, ...seen)).toEqual([null, null]);
  expect(warnings(false, ...seen)).toEqual(["had labels renamed", null]);
});

test("a label that takes another's name causes one warning, also when the other gave it up long before", () => {
  const taken = "got labels that were called otherwise before";
  expect(warnings(true, { "label 1": "a", "label 2": "b" }, { "label 1": "b", "label 2": "a" })).toEqual([
    taken,
  ]);
  const seen = [{ "label 1": "a" }, { "label 1": "b" }, { "label 1": "b", "label 2": "a" }];
  expect(warnings(true, ...seen, seen[2]!)).toEqual([null, taken, null]);
  expect(warnings(true, { "label 1": "a" }, { "label 1": "b" }, { "label 1": "a" })).toEqual([null, null]);
});

test("a dropped attribute causes a warning; an added or renamed one does not", () => {
  const seen = [{ "1 of c": "x" }, { "1 of c": "y", "2 of c": "z" }, { "2 of c": "z", "3 of c": "y" }];
  expect(warnings(true, ...seen)).toEqual([null, "lost an attribute"]);
});
