import { expect, test } from "bun:test";
import { keyViolations } from "../../src/connector/replay.ts";

test("values of keys are texts, numbers that a double holds, and booleans", () => {
  expect(keyViolations({ a: "x", b: 1.5, c: false }, "/key")).toEqual([]);
  const bad: Record<string, unknown> = JSON.parse('{"a": null, "b": [1], "c/d": {}, "e": 1e400}');
  expect(keyViolations(bad, "/key").map(({ path }) => path)).toEqual([
    "/key/a",
    "/key/b",
    "/key/c~1d",
    "/key/e",
  ]);
});
