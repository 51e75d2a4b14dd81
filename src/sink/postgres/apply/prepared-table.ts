// A target table that is ready for the rows of one relation: its columns are in the order of the relation's tuples.

import type { TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lastLsn, zeroLsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { takesBinary } from "../schema/binary-fit.ts";
import { hasRoomForGroup } from "../schema/row-width.ts";
import type { TargetName } from "../schema/target-name.ts";
import { type KeyColumn, keyIndexOf, type TargetTable, type UniqueKey } from "../schema/target-table.ts";

export interface PreparedTable {
  readonly relation: Relation;
  readonly target: TargetName;
  /** As `TargetTable` has it. */
  readonly ownRows: string;
  /** In the order of the tuple. */
  readonly columns: readonly PreparedColumn[];
  readonly columnNames: readonly string[];
  /** Indexes into `columns`; empty without a key. */
  readonly key: readonly number[];
  /** An index finds a row by its key. */
  readonly isKeyIndexed: boolean;
  /** ORDER BY for staged rows `s`, in the order of the key's index. Empty without an index. */
  readonly keyOrder: string;
  /** Indexes of columns beside the key that an UPDATE cannot set. */
  readonly fixed: readonly number[];
  /** Columns that somebody has added at the sink. */
  readonly extras: readonly string[];
  /** Foreign keys that are in force refer to it: deleting a row and inserting it again would fail or cascade. */
  readonly isReferred: boolean;
  /** A row that gets another key is updated: if it were deleted and inserted again, it would lose `extras`, or take other tables' rows with it. */
  readonly updatesKeys: boolean;
  /** As `TargetTable` has it. */
  readonly hasLateChecks: boolean;
  /** Its rank among tables that refer to each other: higher than that of the tables that it refers to. */
  readonly rank: number;
  /** It also has rows of other source tables. */
  readonly isShared: boolean;
  /** The relation is older than what the target follows, and lacks columns of that. A copy has brought them. */
  readonly isOlder: boolean;
  /** A staging row may be too wide for one more column. */
  readonly isWide: boolean;
  /** The staging table's name in pg_temp. It needs no quotes. */
  readonly staging: string;
  readonly copy: CopyState;
}

export interface PreparedColumn {
  readonly name: string;
  /** At the sink. */
  readonly typeOid: number;
  /** As `TargetColumn` has it. */
  readonly plainType: string;
  readonly isDomain: boolean;
  /** As `TargetColumn` has it. */
  readonly isFixed: boolean;
  /** Its entry in the key's index, if it has one. */
  readonly indexed: KeyColumn | undefined;
}

/** How the changes of a table stand to its copy. */
export type CopyState =
  /** There is no copy: rows that are to be updated or deleted may be missing. */
  | { readonly kind: "none" }
  /** Changes committed before `point` are in the copy and must not be applied. */
  | { readonly kind: "exact"; readonly point: Lsn }
  /**
   * The copy was merged into rows that were there, or its ranges have several points. Changes from before `point` are applied again, to rows in
   * any state. `first`: not null if a row may be in none of the ranges; changes committed before it are in all ranges.
   */
  | { readonly kind: "merged"; readonly point: Lsn; readonly first: Lsn | null };

/** Changes were missed since the copy was made: rows may be older or newer than any change. */
export const outOfDate: CopyState = { kind: "merged", point: lastLsn, first: zeroLsn };

/** Throws `stream_form_changed` if the table cannot take the relation's rows in the stream's form. */
export function prepareTable(
  table: TargetTable,
  relation: Relation,
  form: TupleForm,
  place: Pick<PreparedTable, "staging" | "copy" | "rank" | "isShared" | "isOlder">,
): PreparedTable {
  if (form === "binary" && !takesBinary(table, relation)) {
    throw new MillraceError(
      "stream_form_changed",
      `${qualifiedName(table.target)} at the sink has other types than the source's: text from here on.`,
    );
  }
  const index = keyIndexOf(table, relation);
  const stored = new Map(table.columns.map((column) => [column.name, column]));
  const columns = relation.columns.map(({ name }) => ({
    name,
    typeOid: stored.get(name)?.typeOid ?? 0,
    plainType: stored.get(name)?.plainType ?? "pg_catalog.text",
    isDomain: stored.get(name)?.isDomain ?? false,
    isFixed: stored.get(name)?.isFixed ?? false,
    indexed: index?.columns.find(({ column }) => column === name),
  }));
  const extras = table.columns.flatMap(({ name, generated }) =>
    generated || relation.columns.some((column) => column.name === name) ? [] : [name],
  );
  const widths = relation.columns.flatMap(({ name }) => stored.get(name) ?? []);
  return {
    relation,
    target: table.target,
    ownRows: table.ownRows,
    columns,
    columnNames: columns.map((column) => column.name),
    key: relation.key,
    isKeyIndexed: index !== undefined,
    keyOrder: keyOrder(index, relation),
    fixed: columns.flatMap(({ isFixed }, i) => (isFixed && !relation.key.includes(i) ? [i] : [])),
    extras,
    isReferred: table.isReferred,
    // Where the key is a hash of the row, any change gives another key.
    updatesKeys: !relation.isKeyedByHash && (extras.length > 0 || table.hasReferentialActions),
    hasLateChecks: table.hasLateChecks,
    isWide: !hasRoomForGroup(widths),
    ...place,
  };
}

function keyOrder(index: UniqueKey | undefined, { columns }: Relation): string {
  const order = (index?.columns ?? []).flatMap(({ column, before }) =>
    before === null ? [] : [`s.c${columns.findIndex(({ name }) => name === column)} using ${before}`],
  );
  return order.length === 0 ? "" : ` order by ${order.join(", ")}`;
}
