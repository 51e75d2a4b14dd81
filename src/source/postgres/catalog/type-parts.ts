// What the values of a column's type are made of and printed by: labels of enums, attributes of composites. They are altered
// beside the tables, and rows that are there read otherwise by that without an event. Pure.
// https://www.postgresql.org/docs/current/sql-altertype.html

import { qualifiedName } from "../../../change/relation.ts";
import type { TypeDefinition } from "../../../change/type-definition.ts";

/** Names of labels and attributes, by what stays when they are renamed. */
export type TypeParts = Readonly<Record<string, string>>;

const labelSign = "label ";

/** Those of the types that a column's values are of. */
export function partsOf(definitions: readonly TypeDefinition[]): TypeParts {
  return Object.fromEntries(definitions.flatMap(partsOfOne));
}

function partsOfOne(type: TypeDefinition): readonly (readonly [string, string])[] {
  switch (type.kind) {
    case "enum":
      return type.labels.map(({ name, age }) => [`${labelSign}${age}`, name] as const);
    case "composite":
      return type.attributes.map(
        ({ name, number }) => [`${number} of ${qualifiedName(type)}`, name] as const,
      );
    case "domain":
    case "range":
      return [];
    default:
      return type satisfies never;
  }
}

export interface RememberedParts {
  readonly parts?: TypeParts;
  /** What labels were called before, the latest last. */
  readonly formerParts?: Readonly<Record<string, readonly string[]>>;
}

export function rememberParts(before: RememberedParts | undefined, parts: TypeParts): RememberedParts {
  const former = Object.keys(parts).flatMap((part) => {
    const names = before?.formerParts?.[part] ?? [];
    const last = before?.parts?.[part];
    const isRenamed = last !== undefined && last !== parts[part] && !names.includes(last);
    const known = isRenamed ? [...names, last] : names;
    return known.length > 0 ? [[part, known] as const] : [];
  });
  return { parts, ...(former.length > 0 ? { formerParts: Object.fromEntries(former) } : {}) };
}

/**
 * Why values that were there read otherwise by now than a sink can tell; null: they do not. `areFollowed`: the sink renames labels
 * as the source did, which it can as long as none takes the name that another had: then values from before mean the other.
 */
export function partChange(
  before: RememberedParts,
  now: RememberedParts,
  areFollowed: boolean,
): string | null {
  const { parts: old = {} } = before;
  const { parts = {}, formerParts = {} } = now;
  const isNews = (part: string) => old[part] !== parts[part];
  const labels = Object.keys(parts).filter((part) => part.startsWith(labelSign) && isNews(part));
  const isTaken = (label: string) =>
    Object.entries(formerParts).some(([part, names]) => part !== label && names.includes(parts[label]!));
  if (labels.some(isTaken)) return "got labels that were called otherwise before";
  if (!areFollowed && labels.some((part) => old[part] !== undefined)) return "had labels renamed";
  const isGone = (part: string) => !part.startsWith(labelSign) && parts[part] === undefined;
  return Object.keys(old).some(isGone) ? "lost an attribute" : null;
}
