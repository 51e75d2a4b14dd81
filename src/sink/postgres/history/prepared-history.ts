// A history that is ready for the rows of one relation's changes.

import type { Relation } from "../../../change/relation.ts";
import { projectTuple, type TupleRef } from "../../../change/tuple.ts";
import type { TargetName } from "../schema/target-name.ts";
import { hasHistory } from "./history-naming.ts";

export interface PreparedHistory {
  readonly name: TargetName;
  /** Indexes of the relation's columns that it has. */
  readonly columns: readonly number[];
  /** Indexes of the relation's key; empty without one. */
  readonly key: readonly number[];
  /** Of its columns, those beside the key. */
  readonly besideKey: readonly number[];
  /** The tuple with the columns that it has. */
  ofTuple(tuple: TupleRef): TupleRef;
}

export function prepareHistory(name: TargetName, { columns, key }: Relation): PreparedHistory {
  const kept = columns.flatMap((column, i) => (hasHistory(column) ? [i] : []));
  const areAll = kept.length === columns.length;
  return {
    name,
    columns: kept,
    key,
    besideKey: kept.filter((i) => !key.includes(i)),
    ofTuple: (tuple) => (areAll ? tuple : projectTuple(tuple, kept)),
  };
}
