// The parts of a type that its values are printed by: enum labels and composite attributes. ALTER TYPE changes them
// without touching a table, and existing rows then read differently without an event. Pure.
// https://www.postgresql.org/docs/current/sql-altertype.html

import { qualifiedName } from "../../../change/relation.ts";
import type { TypeDefinition } from "../../../change/type-definition.ts";

/** Names of labels and attributes, by what a rename keeps. */
export type TypeParts = Readonly<Record<string, string>>;

const labelPrefix = "label ";

/** The parts of all these types. */
export function partsOf(definitions: readonly TypeDefinition[]): TypeParts {
  return Object.fromEntries(definitions.flatMap(partsOfOne));
}

function partsOfOne(type: TypeDefinition): readonly (readonly [string, string])[] {
  switch (type.kind) {
    case "enum":
      return type.labels.map(({ name, age }) => [`${labelPrefix}${age}`, name] as const);
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
  /** Earlier names of labels, oldest first. */
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
 * Why existing values read differently now, in a way that a sink cannot follow; null: they do not. `areFollowed`: the
 * sink renames labels as the source did. It can, unless a label takes a name that another one had: then older values
 * mean the other one.
 */
export function partChange(
  before: RememberedParts,
  now: RememberedParts,
  areFollowed: boolean,
): string | null {
  const { parts: old = {} } = before;
  const { parts = {}, formerParts = {} } = now;
  const isChanged = (part: string) => old[part] !== parts[part];
  const labels = Object.keys(parts).filter((part) => part.startsWith(labelPrefix) && isChanged(part));
  const isTaken = (label: string) =>
    Object.entries(formerParts).some(([part, names]) => part !== label && names.includes(parts[label]!));
  if (labels.some(isTaken)) return "got labels that were called otherwise before";
  if (!areFollowed && labels.some((part) => old[part] !== undefined)) return "had labels renamed";
  const isGone = (part: string) => !part.startsWith(labelPrefix) && parts[part] === undefined;
  return Object.keys(old).some(isGone) ? "lost an attribute" : null;
}
