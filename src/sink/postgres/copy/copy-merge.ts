// Writes a copy's rows from a staging table into a table that is there already. Rows that are equal are not written. Runs in the caller's
// transaction.

import { type Client, escapeIdentifier } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { columnNames, keyNames, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { withRefusedKey } from "../refusals/refused-key.ts";
import { sqlList } from "../schema/target-name.ts";
import { hasOtherUniqueIndex, keyIndexOf, type TargetTable } from "../schema/target-table.ts";
import { matchSql, sameSql } from "./row-match.ts";

export interface CopiedRows {
  /** The staging table, as SQL. It has the relation's columns under their names. */
  readonly staging: string;
  readonly relation: Relation;
  /** Rows of the target that the copy does not have stay. */
  readonly isMerged: boolean;
  readonly keepsOrigin: boolean;
  /** The target has no rows, and the copy has each key once. */
  readonly isIntoEmpty?: boolean;
  /** Rows of the target with these keys are removed if the copy does not have them; absent or null: none is. */
  readonly ofKeys?: readonly RowKey[] | null;
}

/** All statements share one transaction: a reader sees the rows before or the rows after. Throws CopyRowRefused where a constraint refuses a row. */
export async function mergeCopy(client: Client, target: TargetTable, rows: CopiedRows): Promise<void> {
  const written = { ...rows, target, rows: rows.staging };
  await withRefusedKey(client, written, () =>
    withLateChecks(client, target, () => merge(client, target, rows)),
  );
}

async function merge(client: Client, target: TargetTable, rows: CopiedRows): Promise<void> {
  const { staging, relation, isMerged, keepsOrigin, isIntoEmpty } = rows;
  const names = columnNames(relation);
  if (isIntoEmpty) return await insertRows(client, target, names, staging);
  await client.query(`analyze ${staging}`);
  // Rows without a key cannot be matched: the copy replaces all of them in either mode.
  if (relation.key.length === 0 || relation.isKeyedByHash) return await replaceAll(client, target, rows);
  const compared = { target, relation, keepsOrigin };
  const match = matchSql(compared, "t", "s");
  const differs = `${match} and not ${sameSql(compared)}`;
  const missing = `${staging} s where not exists (select from ${target.ownRows} t where ${match})`;
  const insert = () => insertRows(client, target, names, missing);
  const removeUncopied = async () => {
    if (rows.ofKeys) return await removeAbsent(client, target, rows, rows.ofKeys);
    if (isMerged) return;
    const isCopied = `exists (select from ${staging} s where ${match})`;
    await client.query(`delete from ${target.ownRows} t where not ${isCopied}`);
  };
  // Foreign keys are in force: insert rows before others refer to them, and delete last. With several unique indexes the deletes come
  // first, as the new rows may need unique values of the deleted ones.
  if (target.isReferred && !(await hasOtherUniqueIndex(client, target, relation))) {
    await insert();
    await updateInPlace(client, target, rows, match, differs);
    await insert();
    return await removeUncopied();
  }
  await removeUncopied();
  if (target.isReferred) await updateInPlace(client, target, rows, match, differs);
  else if (keyIndexOf(target, relation)) await replaceDiffering(client, target, rows, match, differs);
  // Without an index several rows may have the same key.
  else await client.query(`delete from ${target.ownRows} t using ${staging} s where ${match}`);
  await insert();
}

/** `from`: the rows, as SQL that can follow FROM. `distinct`: SQL that chooses among them. */
async function insertRows(
  client: Client,
  { target }: TargetTable,
  names: readonly string[],
  from: string,
  distinct = "",
): Promise<void> {
  const columns = sqlList(names);
  const list = columns === "" ? "" : `(${columns}) `;
  await client.query(
    `insert into ${sqlName(target)} ${list}overriding system value select ${distinct}${columns} from ${from}`,
  );
}

/**
 * The keys are a parameter, so that they are in no statement's text. Where the index calls different texts equal, a row of another text is another
 * row, which may have come since.
 */
async function removeAbsent(
  client: Client,
  target: TargetTable,
  { staging, relation }: CopiedRows,
  keys: readonly RowKey[],
): Promise<void> {
  const types = keyNames(relation).map(
    (name) => target.columns.find((column) => column.name === name)?.plainType,
  );
  const values = types
    .map((type, i) => `(wanted.value->>${i})::${type ?? "text"} as k${i}, wanted.value->>${i} as x${i}`)
    .join(", ");
  const index = keyIndexOf(target, relation);
  const hasText = keyNames(relation).map((name, i) =>
    index?.columns.some(({ column, isLoose }) => isLoose && column === name)
      ? ` and format('%s', t.${escapeIdentifier(name)}) = k.x${i} collate "C"`
      : "",
  );
  const wanted = `(select ${values} from json_array_elements($1::json) as wanted(value)) k`;
  const isCopied = `exists (select from ${staging} s where ${matchSql({ target, relation }, "s", "k")})`;
  await client.query(
    `delete from ${target.ownRows} t using ${wanted} where ${matchSql({ target, relation }, "t", "k")}${hasText.join("")} and not ${isCopied}`,
    [JSON.stringify(keys)],
  );
}

async function replaceAll(
  client: Client,
  target: TargetTable,
  { staging, relation }: CopiedRows,
): Promise<void> {
  const distinct = relation.isKeyedByHash ? `distinct on (${sqlList(keyNames(relation))}) ` : "";
  await client.query(`delete from ${target.ownRows}`);
  await insertRows(client, target, columnNames(relation), staging, distinct);
}

/**
 * Deletes rows that differ and inserts them anew: an update could fail where rows swap unique values. Columns that somebody added at the sink
 * keep their values.
 */
async function replaceDiffering(
  client: Client,
  target: TargetTable,
  { staging, relation }: CopiedRows,
  match: string,
  differs: string,
): Promise<void> {
  const names = columnNames(relation);
  const extras = target.columns.filter(({ name, generated }) => !generated && !names.includes(name));
  const added = extras.map(({ name }) => `, t.${escapeIdentifier(name)}`).join("");
  await client.query(
    `create temporary table millrace_differing on commit drop as select s.*${added} from ${staging} s, ${target.ownRows} t ` +
      `where ${differs}`,
  );
  await client.query(`delete from ${target.ownRows} t using pg_temp.millrace_differing s where ${match}`);
  await insertRows(
    client,
    target,
    [...names, ...extras.map(({ name }) => name)],
    "pg_temp.millrace_differing",
  );
}

/** Rows that foreign keys refer to are updated, not deleted: a delete would fail or cascade. */
async function updateInPlace(
  client: Client,
  target: TargetTable,
  { staging, relation }: CopiedRows,
  match: string,
  differs: string,
): Promise<void> {
  const fixed = target.columns.filter(({ isFixed }) => isFixed).map(({ name }) => name);
  const written = columnNames(relation).filter((_, i) => !relation.key.includes(i));
  const differing = written
    .filter((name) => fixed.includes(name))
    .map((name) => `t.${escapeIdentifier(name)} is distinct from s.${escapeIdentifier(name)}`);
  if (differing.length > 0) {
    const condition = `${match} and (${differing.join(" or ")})`;
    await client.query(`delete from ${target.ownRows} t using ${staging} s where ${condition}`);
  }
  const set = written
    .filter((name) => !fixed.includes(name))
    .map((name) => `${escapeIdentifier(name)} = s.${escapeIdentifier(name)}`);
  if (set.length === 0) return;
  await client.query(`update ${target.ownRows} t set ${set.join(", ")} from ${staging} s where ${differs}`);
}
