// What was changed, for people: each place, or table, with what was there and what is. Pure.

import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import type { KnownTables } from "../catalog/selection.ts";
import { catalogChanges } from "./catalog-changes.ts";
import type { Change } from "./change.ts";
import { isSame } from "./patch.ts";
import { isObject, pointerTo, valueAt } from "./pointer.ts";
import { kept, withoutSecrets } from "./secrets.ts";

const catalogPath = "/source/postgres/catalog";

/** Of a secret it says that there is a new one, never which. `known`: the tables of the source, as far as they came. */
export function changesOf(
  before: JsonObject,
  after: JsonObject,
  known: KnownTables | null = null,
): readonly Change[] {
  const shown = withoutSecrets(after, before);
  return compare(before, after, shown, "").flatMap((change) => {
    if (change.path !== `${catalogPath}/schemas`) return [change];
    const tables = catalogChanges(valueAt(before, catalogPath), valueAt(shown, catalogPath), known);
    return tables ?? [change];
  });
}

function compare(
  was: JsonValue | undefined,
  is: JsonValue | undefined,
  shown: JsonValue | undefined,
  path: string,
): Change[] {
  if (isSame(was ?? null, is ?? null)) return [];
  if (!isObject(was) || !isObject(is)) {
    const after = shown === kept ? "a new one" : textOf(shown);
    return [{ path, before: textOf(was), after }];
  }
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].flatMap((key) =>
    compare(own(was, key), own(is, key), own(shown, key), path + pointerTo(key)),
  );
}

function own(object: JsonValue | undefined, key: string): JsonValue | undefined {
  return isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
}

const longest = 120;

function textOf(value: JsonValue | undefined): string | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
