// Features that a connector's schema has and the service does not support yet. They are refused, because without them
// the connector would do something else than it says. Whoever builds a feature removes its line here.

import { isJsonObject } from "./merge-patch.ts";

/** What a refusal says of each path. */
export const notSupported = "known, and not supported yet";

/** JSON pointers; `*` stands for each item. A feature is in use if the value is neither null nor false. */
export const unbuiltFeatures: readonly string[] = ["/buffer/object_store"];

/** Whoever gets messages always gets the source's names. */
const unbuiltForMessages: readonly string[] = ["/identifier_naming/FivetranNaming"];

/** Ways to log in to Kafka. */
const unbuiltMechanisms = ["OauthBearer", "GssApi"];

/** The paths in `value`, a connector or a part of one, that use something that is not built. */
export function unbuiltPaths(value: unknown): string[] {
  const features = getsMessages(value) ? [...unbuiltFeatures, ...unbuiltForMessages] : unbuiltFeatures;
  return features.flatMap((feature) => find(value, feature.slice(1).split("/"), ""));
}

/** The paths in `value` that have a word which is known, and not built. The schema has the other words. */
export function unbuiltWords(value: unknown): string[] {
  return find(value, ["sink", "kafka", "connection", "auth", "mechanism"], "", (word) =>
    unbuiltMechanisms.some((mechanism) => mechanism === word),
  );
}

function getsMessages(value: unknown): boolean {
  return ["webhook", "kafka"].some((kind) => find(value, ["sink", kind], "").length > 0);
}

const isUsed = (value: unknown) => value !== null && value !== undefined && value !== false;

function find(
  value: unknown,
  keys: readonly string[],
  path: string,
  isFound: (value: unknown) => boolean = isUsed,
): string[] {
  const [key, ...rest] = keys;
  if (key === undefined) return isFound(value) ? [path] : [];
  if (key === "*") {
    return Array.isArray(value)
      ? value.flatMap((item, index) => find(item, rest, `${path}/${index}`, isFound))
      : [];
  }
  return isJsonObject(value) && Object.hasOwn(value, key)
    ? find(value[key], rest, `${path}/${key}`, isFound)
    : [];
}
