// Decides whether rows at the sink may have enum labels that the source has renamed. Pure.

import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import type { TargetTable } from "../schema/target-table.ts";
import type { OnAmbiguousLabels } from "./type-maker.ts";

/** `types`: the types whose labels may have been renamed. The target's columns may have another type, such as text. */
export function holdsOldLabels(
  table: TargetTable,
  relation: Relation,
  types: Parameters<OnAmbiguousLabels>[0],
): boolean {
  const typeAtSink = new Map(table.columns.map(({ name, typeName }) => [name, typeName]));
  const isDoubtful = ({ name, typeName, typeDefinitions = [] }: Column) =>
    typeDefinitions.some((type) => {
      const renamed = types.get(qualifiedName(type));
      return renamed !== undefined && !(renamed.isFollowed && typeAtSink.get(name) === typeName);
    });
  return relation.columns.some(isDoubtful);
}
