// SQL that makes a row of the target equal the source's, for people to paste. Pure.

import { escapeIdentifier, escapeLiteral } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { keyNames, type Relation } from "../../../change/relation.ts";
import type { ComparedColumn } from "../../../comparison/row-comparison.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { RowChange } from "../../verify-sink.ts";
import { sqlList } from "../schema/target-name.ts";
import type { TargetTable } from "../schema/target-table.ts";

export interface RepairedTable {
  readonly target: TargetTable;
  readonly relation: Relation;
  readonly columns: readonly ComparedColumn[];
}

export function repairStatement({ target, relation, columns }: RepairedTable, change: RowChange): string {
  const nameOf = (number: number) => relation.columns.find((column) => column.number === number)?.name ?? "";
  const names = columns.map(({ number }) => nameOf(number));
  const condition = (key: RowKey) =>
    keyNames(relation)
      .map((name, i) => `${escapeIdentifier(name)} = ${literal(key[i] ?? null)}`)
      .join(" and ");
  switch (change.kind) {
    case "Missing":
      return `INSERT INTO ${sqlName(target.target)} (${sqlList(names)}) OVERRIDING SYSTEM VALUE VALUES (${change.texts.map(literal).join(", ")});`;
    case "Extra":
      return `DELETE FROM ${target.ownRows} WHERE ${condition(change.key)};`;
    case "WithoutKey": {
      const isNull = keyNames(relation).map((name) => `num_nulls(${escapeIdentifier(name)}) > 0`);
      return `DELETE FROM ${target.ownRows} WHERE ${isNull.join(" OR ")};`;
    }
    case "Changed": {
      const set = columns.flatMap(({ number }, i) =>
        change.columns.includes(number)
          ? [`${escapeIdentifier(names[i]!)} = ${literal(change.texts[i] ?? null)}`]
          : [],
      );
      return `UPDATE ${target.ownRows} SET ${set.join(", ")} WHERE ${condition(change.key)};`;
    }
    default:
      return change satisfies never;
  }
}

function literal(text: string | null): string {
  return text === null ? "NULL" : escapeLiteral(text);
}
