// A target table made ready for the rows of one relation's shape: names and types in the order of its tuples.

import type { TupleForm } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { Relation } from "../../change/relation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { TargetName } from "./target-name.ts";
import { isKeyIndexed, type TargetTable, takesBinary } from "./target-table.ts";

export interface PreparedTable {
  readonly relation: Relation;
  readonly target: TargetName;
  /** In the order of the tuple: the name at the sink, and the sink's type as SQL. */
  readonly columns: readonly { readonly name: string; readonly typeName: string }[];
  readonly columnNames: readonly string[];
  /** Indexes into `columns`; empty without a key. */
  readonly key: readonly number[];
  readonly isKeyIndexed: boolean;
  /** Name of the staging table in pg_temp; safe as it stands. */
  readonly staging: string;
  /** Changes committed before it are in the table's copy already. */
  readonly appliesFrom: Lsn;
}

/** Throws `stream_form_changed` when the table cannot take the relation's rows in the stream's form. */
export function prepareTable(
  table: TargetTable,
  relation: Relation,
  form: TupleForm,
  staging: string,
  appliesFrom: Lsn,
): PreparedTable {
  if (form === "binary" && !takesBinary(table, relation)) {
    throw new MillraceError(
      "stream_form_changed",
      `Table ${table.target.schema}.${table.target.name} at the sink has other types than the source's: text from here on.`,
    );
  }
  const columns = relation.columns.map((column) => {
    const target = table.columns.find((candidate) => candidate.name === column.name);
    return { name: column.name, typeName: target?.typeName ?? "text" };
  });
  return {
    relation,
    target: table.target,
    columns,
    columnNames: columns.map((column) => column.name),
    key: relation.key,
    isKeyIndexed: isKeyIndexed(table, relation),
    staging,
    appliesFrom,
  };
}
