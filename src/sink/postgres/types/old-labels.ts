// Tells whether rows at the sink hold labels of an enum that the source has renamed. Pure.

import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import type { TargetTable } from "../schema/target-table.ts";
import type { Doubt } from "./type-maker.ts";

/** `types`: those of which labels may have been renamed. The table's columns may be of others: text, as somebody made them. */
export function holdsOldLabels(table: TargetTable, relation: Relation, types: Parameters<Doubt>[0]): boolean {
  const typeAtSink = new Map(table.columns.map(({ name, typeName }) => [name, typeName]));
  const isDoubtful = ({ name, typeName, typeDefinitions = [] }: Column) =>
    typeDefinitions.some((type) => {
      const renamed = types.get(qualifiedName(type));
      return renamed !== undefined && !(renamed.isFollowed && typeAtSink.get(name) === typeName);
    });
  return relation.columns.some(isDoubtful);
}
