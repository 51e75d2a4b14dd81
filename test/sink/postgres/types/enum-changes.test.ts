import { expect, test } from "bun:test";
import { enumChanges } from "../../../../src/sink/postgres/types/enum-changes.ts";

/** Labels in their order; `a9` is one of age 9. */
const wanted = (text: string) =>
  text.split(" ").map((word) => ({ name: word[0]!, age: Number(word.slice(1)) }));
const changes = (source: string, sink: string, isOurs = true) =>
  enumChanges(wanted(source), sink.split(" "), isOurs).map((change) =>
    change.kind === "rename" ? `${change.from}>${change.to}` : `+${change.label}<${change.before ?? "end"}`,
  );

test("labels are added where they belong, and renamed where one is gone", () => {
  expect(changes("a1 b2 c3", "a b c")).toEqual([]);
  expect(changes("a1 b2 c3", "a c")).toEqual(["+b<c"]);
  expect(changes("a1 b2 c3 d4", "a b")).toEqual(["+d<end", "+c<d"]);
  expect(changes("a1 x2 c3", "a b c")).toEqual(["b>x"]);
  expect(changes("x1 y2", "a b")).toEqual(["a>x", "b>y"]);
});

test("of several in the place of one that is gone, the oldest is it", () => {
  expect(changes("a1 n9 x2 c3", "a b c")).toEqual(["b>x", "+n<x"]);
  expect(changes("a1 x2 n9 c3", "a b c")).toEqual(["b>x", "+n<c"]);
});

test("labels that somebody else has added are left alone", () => {
  expect(changes("a1 x2 c3", "a b c", false)).toEqual(["+x<c"]);
  expect(changes("a1 c3", "a b c")).toEqual([]);
});
