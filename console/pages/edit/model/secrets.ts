// Secrets in what the page shows: hidden, put back where the shown text is edited, and named where somebody has to fill them in. Pure.

import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { isObject, pointerTo, valueAt } from "./pointer.ts";

/** What answers have for a secret; sent back it means the stored one. */
export const kept = "***";

/** A test holds this against what the API hides. */
const secretKeys: ReadonlySet<string> = new Set([
  ...["password", "token", "secret", "salt", "private_key"],
  ...["ssl_cert", "ssl_key", "ssl_root_cert", "ssl_ca", "ssl_certificate", "ssl_key_password"],
]);

/** A list of names and values, or the one header of a webhook's authentication: any of the values may be a secret. */
const holdsValues = /\/(?:static_|static|global_properties|producer_properties)\/\d+$|\/auth\/header$/;

/**
 * A copy in which secrets read `"***"`.
 *
 * @param shown what the API itself showed: a value that is in there may be seen
 */
export function withoutSecrets(config: JsonObject, shown: JsonObject | null): JsonObject {
  return replaceSecrets(config, shown, () => kept);
}

/** A copy in which each new secret is a placeholder that names it: `<password>`. Stored ones read `"***"`. */
export function withPlaceholders(config: JsonObject, shown: JsonObject | null): JsonObject {
  return replaceSecrets(config, shown, (value, key, holder) =>
    value === kept ? kept : `<${key === "value" ? String(holder.name ?? holder.key ?? key) : key}>`,
  );
}

/** `edited` with the secrets of `before` where it says `"***"`. Items of lists are found by their name or key. */
export function withSecretsOf(edited: JsonValue, before: JsonValue | undefined): JsonValue {
  if (edited === kept) return typeof before === "string" ? before : edited;
  if (Array.isArray(edited))
    return edited.map((item, at) => withSecretsOf(item, counterpart(item, at, before)));
  if (!isObject(edited)) return edited;
  const members = Object.entries(edited).map(([key, value]): [string, JsonValue] => [
    key,
    withSecretsOf(value, isObject(before) && Object.hasOwn(before, key) ? before[key] : undefined),
  ]);
  return Object.fromEntries(members);
}

function counterpart(item: JsonValue, at: number, list: JsonValue | undefined): JsonValue | undefined {
  if (!Array.isArray(list)) return undefined;
  const name = nameOf(item);
  return name === null ? list[at] : list.find((other) => nameOf(other) === name);
}

function nameOf(item: JsonValue): string | null {
  const name = isObject(item) ? (item.name ?? item.key) : null;
  return typeof name === "string" ? name : null;
}

type Replace = (value: string, key: string, holder: JsonObject) => string;

function replaceSecrets(root: JsonObject, shown: JsonObject | null, replace: Replace): JsonObject {
  const walk = (node: JsonValue, at: string): JsonValue => {
    if (Array.isArray(node)) return node.map((item, index) => walk(item, at + pointerTo(index)));
    if (!isObject(node)) return node;
    const members = Object.entries(node).map(([key, value]): [string, JsonValue] => {
      const place = at + pointerTo(key);
      if (typeof value !== "string" || value === "") return [key, walk(value, place)];
      const isSecret = secretKeys.has(key) || (key === "value" && holdsValues.test(at));
      const isShown = value !== kept && shown !== null && valueAt(shown, place) === value;
      return [key, isSecret && !isShown ? replace(value, key, node) : value];
    });
    return Object.fromEntries(members);
  };
  return walk(root, "") as JsonObject;
}
