// Decides which columns of a target are compared with the source's, by which text, and in which form they are hashed. Pure.

import { type Column, isSystemColumn, qualifiedName, type Relation } from "../../../change/relation.ts";
import { hashedForm } from "../../../comparison/hashed-form.ts";
import type { ComparedColumn } from "../../../comparison/row-comparison.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TargetColumn, TargetTable } from "../schema/target-table.ts";

/** OIDs below it are of types that every server has. */
const firstOwnOid = 16_384;
/** They take any text as it is. */
const anyText: ReadonlySet<string> = new Set(["text", "character varying"]);
const integers: ReadonlySet<number> = new Set([20, 21, 23]);
/** They print an integer as its own type does. */
const anyInteger: ReadonlySet<string> = new Set(["integer", "bigint", "numeric"]);

/**
 * Columns that millrace writes. Others of the target are somebody's own; one that it computes follows from these. A row's hash, its origin, and
 * when it came are no values of the source. Throws `sink_schema_mismatch` where the target lacks a column.
 */
export function comparedColumns(
  relation: Relation,
  { columns, target }: TargetTable,
): readonly ComparedColumn[] {
  const compared: ComparedColumn[] = [];
  for (const column of relation.columns) {
    if (isSystemColumn(column) || column.number < 0) continue;
    const other = columns.find(({ name }) => name === column.name);
    if (!other) {
      throw new MillraceError(
        "sink_schema_mismatch",
        `Table ${qualifiedName(target)} at the sink has no column "${column.name}", so that its rows cannot be compared.`,
      );
    }
    if (!other.generated) compared.push(comparedColumn(column, other));
  }
  return compared;
}

function comparedColumn(column: Column, target: TargetColumn): ComparedColumn {
  const { number, typeOid } = column;
  const as = readAs(column, target);
  // What is read as the sink's type has that type at both sides.
  const one = as === null ? typeOid : target.typeOid;
  return { number, readAs: as, form: hashedForm(one, target.typeOid) };
}

/** Null: both types give a value the same text, or nobody knows another one. */
function readAs(column: Column, target: TargetColumn): string | null {
  const { typeName } = target;
  if (typeName === column.typeName || typeName === column.domainBase?.typeName || anyText.has(typeName))
    return null;
  if (integers.has(column.typeOid) && anyInteger.has(typeName)) return null;
  return target.typeOid < firstOwnOid ? typeName : null;
}
