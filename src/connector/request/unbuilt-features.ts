// Features that a connector's schema has and the service does not support yet. They are refused, because without them
// the connector would do something else than it says. Whoever builds a feature removes its line here.

import { isJsonObject } from "./merge-patch.ts";

/** What a refusal says of each path. */
export const notSupported = "known, and not supported yet";

/** JSON pointers; `*` stands for each item. A feature is in use if the value is neither null nor false. */
export const unbuiltFeatures: readonly string[] = [
  "/buffer/object_store",
  "/source/postgres/catalog/schemas/*/tables/*/history_enabled",
];

/** A webhook's receiver always gets the source's names. */
const unbuiltAtWebhooks: readonly string[] = ["/identifier_naming/FivetranNaming"];

/** The paths in `value`, a connector or a part of one, that use something that is not built. */
export function unbuiltPaths(value: unknown): string[] {
  const features = isWebhook(value) ? [...unbuiltFeatures, ...unbuiltAtWebhooks] : unbuiltFeatures;
  return features.flatMap((feature) => find(value, feature.slice(1).split("/"), ""));
}

function isWebhook(value: unknown): boolean {
  return find(value, ["sink", "webhook"], "").length > 0;
}

function find(value: unknown, keys: readonly string[], path: string): string[] {
  const [key, ...rest] = keys;
  if (key === undefined) return value === null || value === undefined || value === false ? [] : [path];
  if (key === "*") {
    return Array.isArray(value) ? value.flatMap((item, index) => find(item, rest, `${path}/${index}`)) : [];
  }
  return isJsonObject(value) && Object.hasOwn(value, key) ? find(value[key], rest, `${path}/${key}`) : [];
}
