// A column of a target that gets another type, and what it loses by that. Pure.

import type { Column } from "../../../change/relation.ts";
import { holdsAll, type TypeDifference } from "./type-differences.ts";
import { isSameFamily } from "./type-family.ts";

export interface Retype {
  readonly kind: "retype";
  readonly column: Column;
  /** What the new type may not take. The source sends a value for each row. */
  readonly drops: readonly ("identity" | "default")[];
  /** Somebody chose the column's current type. */
  readonly isChosen?: true;
}

export function retypeOf({ column, atSink }: TypeDifference): Retype {
  const { typeName } = column;
  const isNumbered = ["smallint", "integer", "bigint"].includes(typeName);
  // The server converts a default where it may assign it, and not by USING.
  const isConverted = holdsAll(typeName, atSink.typeName) || isSameFamily(typeName, atSink.typeName);
  const lost = [
    ...(isNumbered ? [] : (["identity"] as const)),
    ...(isConverted ? [] : (["default"] as const)),
  ];
  return { kind: "retype", column, drops: atSink.hasDefault ? lost : [] };
}
