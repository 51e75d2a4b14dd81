// What a connector can say and the service does not do yet. It is refused: carried out without it, the
// connector would do something else than it says. Building a feature ends with removing its line here.

import { isJsonObject } from "./merge-patch.ts";

/**
 * JSON pointers; `*` stands for each item. A feature is used where something other than null or false is
 * found.
 */
export const unbuiltFeatures: readonly string[] = [
  "/source/postgres/catalog/schemas/*/tables/*/history_enabled",
];

/** A webhook's receiver gets the source's names. */
const unbuiltAtWebhooks: readonly string[] = ["/identifier_naming/FivetranNaming"];

/** The places in `value`, a connector or a part of one, that ask for something that is not built. */
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
