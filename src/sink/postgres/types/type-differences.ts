// Finds columns whose type at the sink is another one than the source's, and says so. Pure.
// https://www.postgresql.org/docs/current/datatype.html

import type { Column, Relation } from "../../../change/relation.ts";
import type { TargetColumn, TargetTable } from "../schema/target-table.ts";
import { mayHoldValuesOf } from "./type-family.ts";

export interface TypeDifference {
  readonly column: Column;
  readonly atSink: TargetColumn;
}

/** Columns whose type at the sink may refuse values of the source's. */
export function columnsThatMayRefuse(table: TargetTable, relation: Relation): readonly TypeDifference[] {
  return differences(table, relation, ({ column, atSink }) => !holdsAll(atSink.typeName, column.typeName));
}

/** Columns whose type at the sink is of another family: it is not made for values of the source's. */
export function columnsThatCannotHold(table: TargetTable, relation: Relation): readonly TypeDifference[] {
  return differences(
    table,
    relation,
    ({ column, atSink }) => !mayHoldValuesOf(atSink.typeName, column.typeName),
  );
}

function differences(
  { columns }: TargetTable,
  relation: Relation,
  isDifferent: (difference: TypeDifference) => boolean,
): readonly TypeDifference[] {
  return relation.columns
    .flatMap((column) => {
      const atSink = columns.find(({ name }) => name === column.name);
      return atSink && !atSink.generated ? [{ column, atSink }] : [];
    })
    .filter(isDifferent);
}

export function describeDifferences(differing: readonly TypeDifference[]): string {
  return differing
    .map(({ column, atSink }) => {
      return `Column ${column.name} is of type ${column.typeName} at the source and of type ${atSink.typeName} at the sink.`;
    })
    .join(" ");
}

/** Each takes all values of those before it. */
const widening = [
  ["smallint", "integer", "bigint", "numeric"],
  ["real", "double precision"],
  ["jsonb", "json"],
];
const timestamps = ["timestamp without time zone", "timestamp with time zone"];

/** Whether `type` takes each value of `other`, by its text and by a cast. Both are as `format_type` prints them. */
export function holdsAll(type: string, other: string): boolean {
  if (type === other || type === "text" || type === "character varying") return true;
  if (timestamps.includes(type) && timestamps.includes(other)) return true;
  if (type === "numeric" && other.startsWith("numeric(")) return true;
  const [room, needed] = [lengthOf(type), lengthOf(other)];
  if (room !== null && needed !== null) return room >= needed;
  return widening.some((types) => types.includes(other) && types.indexOf(type) > types.indexOf(other));
}

/** The most characters that a type of text takes; null: it is another type, or has no bound. */
function lengthOf(type: string): number | null {
  const length = /^character(?: varying)?\((\d+)\)$/.exec(type)?.[1];
  return length === undefined ? null : Number(length);
}
