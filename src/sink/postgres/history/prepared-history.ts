// A history that is ready for the rows of changes of one relation.

import type { TupleForm } from "../../../change/change-batch.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { projectTuple, type TupleRef } from "../../../change/tuple.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TypedTable } from "../apply/written-bytes.ts";
import type { TargetName } from "../schema/target-name.ts";
import { type KeyColumn, keyIndexOf, type TargetTable } from "../schema/target-table.ts";
import type { FollowedHistoryColumn } from "./history-ledger.ts";
import { hasHistory, historyColumnNames } from "./history-naming.ts";

export interface PreparedHistory {
  readonly name: TargetName;
  /** All columns that its rows have. */
  readonly stored: TypedTable;
  readonly columns: readonly PreparedHistoryColumn[];
  /** Indexes of the relation's key; empty without one. */
  readonly key: readonly number[];
  /** Of its columns, the indexes in the relation of those beside the key. */
  readonly outsideKey: readonly number[];
  /** The rows of the table as SQL, for values that the history has no row of; null: the table's rows are not those of then. */
  readonly rows: string | null;
  /** The staging table's name in pg_temp. It needs no quotes. */
  readonly staging: string;
  /** The tuple with the columns that it has. */
  ofTuple(tuple: TupleRef): TupleRef;
}

export interface PreparedHistoryColumn {
  /** In the relation. */
  readonly at: number;
  /** In the history. */
  readonly name: string;
  /** As `TargetColumn` has it. */
  readonly plainType: string;
  /** How the table's index compares it, if it is part of its key. */
  readonly indexed: KeyColumn | undefined;
  /** See `FollowedHistoryColumn`. */
  readonly isBegunAnew: boolean;
}

export interface HistoryParts {
  readonly relation: Relation;
  /** Null: there is none. */
  readonly table: TargetTable | null;
  /** The table has the rows that the changes are of. Otherwise they are from before its copy. */
  readonly isApplied: boolean;
  readonly history: TargetTable;
  readonly followed: readonly FollowedHistoryColumn[];
  readonly form: TupleForm;
  readonly staging: string;
}

/** Throws `stream_form_changed` if the history cannot take the relation's rows in the stream's form. */
export function prepareHistory(parts: HistoryParts): PreparedHistory {
  const { relation, table, isApplied, history, form, staging } = parts;
  const stored = new Map(history.columns.map((column) => [column.name, column]));
  const index = table ? keyIndexOf(table, relation) : undefined;
  const columns = relation.columns.flatMap((column, at): readonly PreparedHistoryColumn[] => {
    const same = hasHistory(column) ? columnInHistory(column, parts.followed) : undefined;
    const own = same && stored.get(same.name);
    if (!same || !own) return [];
    const { name, isBegunAnew = false } = same;
    if (form === "binary" && own.binaryLayout !== column.binaryLayout) throw takesText(history.target);
    const indexed = index?.columns.find((one) => one.column === column.name);
    return [{ at, name, plainType: own.plainType, indexed, isBegunAnew }];
  });
  const kept = columns.map(({ at }) => at);
  const areAll = kept.length === relation.columns.length;
  const names = [...columns.map(({ name }) => name), ...historyColumnNames];
  return {
    name: history.target,
    stored: { target: history.target, columns: names.flatMap((name) => stored.get(name) ?? []) },
    columns,
    key: relation.key,
    outsideKey: kept.filter((at) => !relation.key.includes(at)),
    rows: (isApplied && table?.ownRows) || null,
    staging,
    ofTuple: (tuple) => (areAll ? tuple : projectTuple(tuple, kept)),
  };
}

/** A column that had another type is under the name that it had with it. Undefined: the history does not have it. */
function columnInHistory(
  { number, name, typeName }: Relation["columns"][number],
  followed: readonly FollowedHistoryColumn[],
): FollowedHistoryColumn | undefined {
  return followed.find(
    (column) =>
      (number === 0 ? column.name === name : column.number === number) && column.sourceType === typeName,
  );
}

function takesText(history: TargetName): MillraceError {
  return new MillraceError(
    "stream_form_changed",
    `The history ${qualifiedName(history)} has other types than the source's: text from here on.`,
  );
}
