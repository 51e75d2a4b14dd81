import { expect, test } from "bun:test";
import { type JsonValue, mergePatch } from "../../../src/connector/request/merge-patch.ts";

// RFC 7396, appendix A.
test.each<[JsonValue, JsonValue, JsonValue]>([
  [{ a: "b" }, { a: "c" }, { a: "c" }],
  [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
  [{ a: "b" }, { a: null }, {}],
  [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
  [{ a: ["b"] }, { a: "c" }, { a: "c" }],
  [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
  [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
  [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
  [
    ["a", "b"],
    ["c", "d"],
    ["c", "d"],
  ],
  [{ a: "b" }, ["c"], ["c"]],
  [{ a: "foo" }, null, null],
  [{ a: "foo" }, "bar", "bar"],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: "b", c: null }, { a: "b" }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])("%j patched with %j", (target, patch, result) => {
  expect(mergePatch(target, patch)).toEqual(result);
});

test("a key named __proto__ is plain data", () => {
  const patched = mergePatch({ a: 1 }, JSON.parse('{"__proto__":{"polluted":true}}'));
  expect(Object.getPrototypeOf(patched)).toBe(Object.prototype);
  expect(Object.hasOwn(patched as object, "__proto__")).toBe(true);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test("target and patch are not modified", () => {
  const target = { a: { b: 1 } };
  const patch = { a: { c: 2 } };
  mergePatch(target, patch);
  expect(target).toEqual({ a: { b: 1 } });
  expect(patch).toEqual({ a: { c: 2 } });
});
