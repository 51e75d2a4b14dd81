// What was changed, as a merge patch (RFC 7396). Pure.

import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { isObject } from "./pointer.ts";

/** Merged into `before` it gives `after`, but for members that are null there: a patch cannot say them. Empty: nothing was changed. */
export function mergePatchOf(before: JsonObject, after: JsonObject): JsonObject {
  const removed = Object.keys(before)
    .filter((key) => isSomething(before, key) && !isSomething(after, key))
    .map((key): [string, JsonValue] => [key, null]);
  const set = Object.entries(after).flatMap(([key, value]): [string, JsonValue][] => {
    if (value === null) return [];
    const was = Object.hasOwn(before, key) ? (before[key] ?? null) : null;
    if (!isObject(value) || !isObject(was)) return isSame(was, value) ? [] : [[key, value]];
    const inner = mergePatchOf(was, value);
    return Object.keys(inner).length === 0 ? [] : [[key, inner]];
  });
  return Object.fromEntries([...removed, ...set]);
}

/** The patch merged into `target`. */
export function withPatch(target: JsonObject, patch: JsonObject): JsonObject {
  const rest = Object.entries(target).filter(([key]) => !Object.hasOwn(patch, key));
  const set = Object.entries(patch).flatMap(([key, value]): [string, JsonValue][] => {
    if (value === null) return [];
    const was = Object.hasOwn(target, key) ? target[key] : null;
    return [[key, isObject(value) ? withPatch(isObject(was) ? was : {}, value) : value]];
  });
  return Object.fromEntries([...rest, ...set]);
}

/** Whatever the order of members. */
export function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, at) => isSame(item, other[at]));
  if (!isObject(one) || !isObject(other)) return one === other;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  );
}

/** An own member: `__proto__` is one like others. */
function isSomething(object: JsonObject, key: string): boolean {
  return Object.hasOwn(object, key) && object[key] !== null && object[key] !== undefined;
}
