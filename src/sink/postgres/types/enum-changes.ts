// Plans how an enum at the sink changes so that it has the source's labels. Pure.

import type { EnumLabel } from "../../../change/type-definition.ts";

export type EnumRename = { readonly kind: "rename"; readonly from: string; readonly to: string };
export type EnumChange =
  | EnumRename
  /** `before`: the label that it comes before; null: it is the last. */
  | { readonly kind: "add"; readonly label: string; readonly before: string | null };

/**
 * Returns the changes in the order in which they are to be made. Postgres cannot drop a label, so one that the source no longer has was renamed:
 * to the new label in its position, or the oldest of several. `isOurs`: nobody else has added labels.
 */
export function enumChanges(
  wanted: readonly EnumLabel[],
  existing: readonly string[],
  isOurs: boolean,
): readonly EnumChange[] {
  const names = new Set(wanted.map(({ name }) => name));
  const renames = isOurs ? findRenames(wanted, existing, names) : [];
  const there = new Set(existing.map((label) => renames.find(({ from }) => from === label)?.to ?? label));
  const adds: EnumChange[] = [];
  for (let i = wanted.length - 1; i >= 0; i--) {
    const label = wanted[i]!.name;
    if (!there.has(label)) adds.push({ kind: "add", label, before: wanted[i + 1]?.name ?? null });
  }
  return [...renames, ...adds];
}

function findRenames(
  wanted: readonly EnumLabel[],
  existing: readonly string[],
  names: ReadonlySet<string>,
): EnumRename[] {
  const here = new Set(existing);
  const gaps = (labels: readonly string[], common: ReadonlySet<string>) => {
    const found: string[][] = [[]];
    for (const label of labels) {
      if (common.has(label)) found.push([]);
      else found.at(-1)?.push(label);
    }
    return found;
  };
  const age = new Map(wanted.map((label) => [label.name, label.age]));
  const old = gaps(existing, names);
  const now = gaps(
    wanted.map(({ name }) => name),
    here,
  );
  return old.flatMap((gone, i) => {
    const candidates = now[i] ?? [];
    const oldest = candidates.toSorted((a, b) => age.get(a)! - age.get(b)!).slice(0, gone.length);
    const renamed = candidates.filter((label) => oldest.includes(label));
    return gone.flatMap((from, place) => {
      const to = renamed[place];
      return to === undefined ? [] : [{ kind: "rename", from, to } as const];
    });
  });
}
