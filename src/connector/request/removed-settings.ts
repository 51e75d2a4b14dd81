// Finds the settings that a changed connector no longer has. A client that sends a whole connector takes out what it
// leaves out, and may not know that somebody else has set it. Pure.

import type { ConnectorConfig, ConnectorRequest } from "../connector.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "./merge-patch.ts";

export interface ConnectorForms {
  readonly given: ConnectorRequest;
  readonly config: ConnectorConfig;
}

/** Behind each of these is a promise to somebody; it is named also where what holds it is gone. */
const namedInside = ["source.postgres.catalog.column_hashing"];

/**
 * Paths with dots of what was given, is gone, and made a difference: the outermost of each. Items of a list are told
 * apart by their names or keys: `schemas[public]`.
 */
export function removedSettings(before: ConnectorForms, after: ConnectorForms): readonly string[] {
  const [was, is] = [asJson(before.given), asJson(after.given)];
  const removed = removedMembers(was, is, asJson(before.config), asJson(after.config), "");
  const inside = namedInside.filter(
    (path) => !removed.includes(path) && valueAt(was, path) !== undefined && valueAt(is, path) === undefined,
  );
  return [...removed, ...inside];
}

function removedMembers(
  was: JsonValue,
  is: JsonValue,
  fullBefore: JsonValue | undefined,
  fullAfter: JsonValue | undefined,
  at: string,
): string[] {
  if (Array.isArray(was) && Array.isArray(is)) return removedItems(was, is, at);
  if (!isJsonObject(was) || !isJsonObject(is)) return [];
  return Object.entries(was).flatMap(([key, value]) => {
    const path = at === "" ? key : `${at}.${key}`;
    const [before, after] = [memberOf(fullBefore, key), memberOf(fullAfter, key)];
    const left = is[key] ?? null;
    if (value === null || (before !== undefined && Bun.deepEquals(before, after))) return [];
    return left === null ? [path] : removedMembers(value, left, before, after, path);
  });
}

function removedItems(was: readonly JsonValue[], is: readonly JsonValue[], at: string): string[] {
  const left = new Map(is.map((item) => [nameOf(item), item]));
  return was.flatMap((item) => {
    const name = nameOf(item);
    if (name === undefined) return [];
    const path = `${at}[${name}]`;
    const same = left.get(name);
    return same === undefined ? [path] : removedMembers(item, same, undefined, undefined, path);
  });
}

function nameOf(item: JsonValue): string | undefined {
  const name = isJsonObject(item) ? (item.name ?? item.key) : undefined;
  return typeof name === "string" ? name : undefined;
}

function memberOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isJsonObject(value) ? value[key] : undefined;
}

function valueAt(root: JsonObject, path: string): JsonValue | undefined {
  return path.split(".").reduce<JsonValue | undefined>(memberOf, root);
}

function asJson(connector: ConnectorRequest | ConnectorConfig): JsonObject {
  return connector as unknown as JsonObject;
}
