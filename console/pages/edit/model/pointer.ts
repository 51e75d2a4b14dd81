// Places in a configuration: JSON pointers (RFC 6901), typed by the request's own type, so that a field cannot name a place that is not
// there. Pure.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";

type Leaf = string | number | boolean | null | undefined | readonly unknown[];

type PointerOf<T> = T extends Leaf
  ? never
  : {
      [K in keyof T & string]-?: `/${K}` | `/${K}${PointerOf<NonNullable<T[K]>>}`;
    }[keyof T & string];

type ValueOf<T, P extends string> = P extends `/${infer K}/${infer Rest}`
  ? K extends keyof T
    ? ValueOf<NonNullable<T[K]>, `/${Rest}`>
    : never
  : P extends `/${infer K}`
    ? K extends keyof T
      ? NonNullable<T[K]>
      : never
    : never;

/** A place of a connector. Items of lists have none of their own. */
export type Pointer = PointerOf<ConnectorRequest>;
/** What may stand there, if something does. */
export type ValueAt<P extends Pointer> = ValueOf<ConnectorRequest, P>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function keysOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export function pointerTo(...keys: readonly (string | number)[]): string {
  return keys.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

export function valueAt(root: JsonValue | undefined, pointer: string): JsonValue | undefined {
  let value = root;
  for (const key of keysOf(pointer)) value = member(value, key);
  return value;
}

/** A copy with another value there; undefined: with none. Objects on the way are made where they are missing. */
export function withValue(root: JsonObject, pointer: string, value: JsonValue | undefined): JsonObject {
  return changed(root, keysOf(pointer), value) as JsonObject;
}

export function isWithin(pointer: string, parent: string): boolean {
  return pointer === parent || pointer.startsWith(`${parent}/`);
}

function member(value: JsonValue | undefined, key: string): JsonValue | undefined {
  if (Array.isArray(value)) return value[Number(key)];
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function changed(
  node: JsonValue | undefined,
  keys: readonly string[],
  value: JsonValue | undefined,
): JsonValue {
  const [key, ...rest] = keys;
  if (key === undefined) return value ?? null;
  if (Array.isArray(node))
    return node.map((item, at) => (at === Number(key) ? changed(item, rest, value) : item));
  const members = new Map(Object.entries(isObject(node) ? node : {}));
  if (rest.length === 0 && value === undefined) members.delete(key);
  else if (value !== undefined || isObject(members.get(key)))
    members.set(key, changed(members.get(key), rest, value));
  return Object.fromEntries(members);
}
