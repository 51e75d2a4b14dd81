// JSON Merge Patch (RFC 7396). patch-connector.ts decides what a patch may change.

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Returns the patched target; the arguments stay unchanged. A `null` in the patch removes the member. */
export function mergePatch(target: JsonValue, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const result = new Map(isJsonObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, mergePatch(result.get(key) ?? null, value));
  }
  // fromEntries defines own members, so that a key "__proto__" is ordinary data.
  return Object.fromEntries(result);
}

/** A deep copy. As text it takes less time than a traversal, and a fraction of structuredClone's. */
export function copyJson<T extends object>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
