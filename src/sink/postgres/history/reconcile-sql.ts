// The SQL that appends to a history what differs between the rows that it has last and those of its table. Pure.

import { escapeIdentifier } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import { equalSql, keyIndexOf, type TargetTable } from "../schema/target-table.ts";
import { historyColumnNames } from "./history-naming.ts";

/**
 * Below the ordinals of changes, which count from 0: rows that were found at an LSN come before the changes that were committed at it. Another
 * comparison at the same LSN goes on behind the rows of the one before.
 */
const firstFoundOrdinal = "-1000000000000000";

export interface Reconciled {
  readonly table: TargetTable;
  readonly relation: Relation;
  readonly history: TargetName;
  /** The history's columns that follow the table's. */
  readonly columns: readonly string[];
  /** Empty: all rows are appended behind a `t`. */
  readonly key: readonly string[];
}

/** As `reconcileSql`, for rows of these keys alone, which it takes as `$3`: a JSON array of arrays of texts. */
export function reconcileKeysSql(reconciled: Reconciled): string {
  const { table, key, history, columns } = reconciled;
  const types = key.map((name) => table.columns.find((column) => column.name === name)?.plainType ?? "text");
  const values = key.map((name, i) => `(asked.value->>${i})::${types[i]} as ${escapeIdentifier(name)}`);
  const changed =
    `select distinct on (h._sm_lsn, h._sm_ordinal) ${sqlList(columns, "h.")}, h._sm_op from wanted k ` +
    `cross join lateral (select * from ${sqlName(history)} h where ${keyMatch(reconciled, "h", "k")} ` +
    `order by h._sm_lsn desc, h._sm_ordinal desc limit 1) h where ${behindCut}`;
  const isWanted = ` where exists (select from wanted k where ${keyMatch(reconciled, "t", "k")})`;
  const wanted = `wanted as materialized (select ${values.join(", ")} from json_array_elements($3::json) as asked(value)), `;
  return appendSql(reconciled, differingSql(reconciled, { wanted, changed, isWanted }));
}

/** Statements that take `$1`, the LSN, and `$2`, the time of commit; null is now. */
export function reconcileSql(reconciled: Reconciled, isEmpty: boolean): readonly string[] {
  const { table, columns, key } = reconciled;
  const found = `select ${stored(table, columns)}, 'r' as _sm_op from ${table.ownRows} t`;
  if (isEmpty) return [appendSql(reconciled, found)];
  if (key.length === 0) return [truncatedSql(reconciled.history), appendSql(reconciled, found)];
  return [appendSql(reconciled, differingSql(reconciled, allKeys(reconciled)))];
}

function appendSql({ history, columns }: Reconciled, rows: string): string {
  const name = sqlName(history);
  return (
    `insert into ${name} (${sqlList([...columns, ...historyColumnNames])}) ` +
    `select ${sqlList(columns, "f.")}, f._sm_op, coalesce($2::timestamptz, clock_timestamp()), $1::pg_lsn, ` +
    `${lastFound(name)} + row_number() over () from (${rows}) f`
  );
}

function truncatedSql(history: TargetName): string {
  const name = sqlName(history);
  return (
    `insert into ${name} (${sqlList(historyColumnNames)}) ` +
    `select 't', coalesce($2::timestamptz, clock_timestamp()), $1::pg_lsn, ${lastFound(name)} + 1`
  );
}

function lastFound(name: string): string {
  return `(select coalesce(max(_sm_ordinal), ${firstFoundOrdinal}) from ${name} where _sm_lsn = $1::pg_lsn and _sm_ordinal < 0)`;
}

/** Values of the target, without the domains that they are of. */
function stored({ columns: all }: TargetTable, names: readonly string[]): string {
  const values = names.map((name) => {
    const column = all.find((one) => one.name === name);
    const value = `t.${escapeIdentifier(name)}`;
    return column?.isDomain ? `${value}::${column.plainType} as ${escapeIdentifier(name)}` : value;
  });
  return values.join(", ");
}

/** Which rows are compared. */
interface Compared {
  /** What `changed` and `isWanted` refer to, in front of them. */
  readonly wanted: string;
  /** The last row of each key in the history, with `_sm_op`. */
  readonly changed: string;
  /** The condition on rows of the table. */
  readonly isWanted: string;
}

const behindCut =
  "not exists (select from cut where (h._sm_lsn, h._sm_ordinal) < (cut._sm_lsn, cut._sm_ordinal))";

function allKeys({ history, columns, key }: Reconciled): Compared {
  const keys = sqlList(key, "h.");
  const changed =
    `select distinct on (${keys}) ${sqlList(columns, "h.")}, h._sm_op from ${sqlName(history)} h ` +
    `where h._sm_op <> 't' and ${behindCut} order by ${keys}, h._sm_lsn desc, h._sm_ordinal desc`;
  return { wanted: "", changed, isWanted: "" };
}

/** Each key is on one side or on both, and in `found` once: the table's index on it makes sure of that. */
function differingSql(reconciled: Reconciled, { wanted, changed, isWanted }: Compared): string {
  const { table, history, columns } = reconciled;
  const row = (of: string) => `row(${sqlList(columns, `${of}.`)})`;
  const match = keyMatch(reconciled, "l", "n");
  return (
    `with ${wanted}cut as (select _sm_lsn, _sm_ordinal from ${sqlName(history)} where _sm_op = 't' order by _sm_lsn desc, _sm_ordinal desc limit 1), ` +
    `changed as (${changed}), ` +
    `l as materialized (select * from changed where _sm_op <> 'd'), ` +
    `n as not materialized (select ${stored(table, columns)} from ${table.ownRows} t${isWanted}) ` +
    `select ${sqlList(columns, "n.")}, 'r' as _sm_op from n where not exists (` +
    `select from l where ${match} and pg_catalog.record_image_eq(${row("l")}, ${row("n")})) ` +
    `union all select ${sqlList(columns, "l.")}, 'd' from l where not exists (select from n where ${match})`
  );
}

function keyMatch({ table, relation, key }: Reconciled, left: string, right: string): string {
  const index = keyIndexOf(table, relation);
  return key
    .map((column) => {
      const indexed = index?.columns.find((one) => one.column === column);
      const name = escapeIdentifier(column);
      return equalSql(indexed, `${left}.${name}`, `${right}.${name}`);
    })
    .join(" and ");
}
