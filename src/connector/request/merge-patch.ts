// RFC 7396, JSON Merge Patch. What a connector may change by it is decided in patch-connector.ts.

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** The target as the patch makes it; neither is changed. A `null` in the patch removes the member. */
export function mergePatch(target: JsonValue, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const result = new Map(isJsonObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, mergePatch(result.get(key) ?? null, value));
  }
  // fromEntries defines own members, so that a key "__proto__" is data like any other.
  return Object.fromEntries(result);
}

/** A deep copy. By way of text it takes less than a walk does, and a fraction of structuredClone's time. */
export function copyJson<T extends object>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
