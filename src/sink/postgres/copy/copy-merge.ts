// Puts a copy's rows, which lie in a staging table, over the rows that are in a table already. Runs inside a transaction that the
// caller began.

import { type Client, escapeIdentifier } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql, keyIndexOf, type TargetTable } from "../schema/target-table.ts";

export interface CopiedRows {
  /** Where they lie, as SQL: with the relation's columns, by their names. */
  readonly staging: string;
  readonly relation: Relation;
  /** Rows that are not among them stay. */
  readonly isMerged: boolean;
}

/**
 * Rows without a key cannot be matched: the copy takes the place of all of them, in either mode. A reader sees the
 * rows before or the rows after, as DELETE and INSERT share the transaction.
 */
export async function mergeCopy(client: Client, table: TargetTable, rows: CopiedRows): Promise<void> {
  const { staging, relation, isMerged } = rows;
  await client.query(`analyze ${staging}`);
  const columns = sqlList(relation.columns.map((column) => column.name));
  const match = keyMatch(table, relation);
  if (match !== null && (table.isReferred || hasExtras(table, relation))) {
    await updateInPlace(client, table, columns, rows, match);
    return;
  }
  if (isMerged && match !== null) {
    await client.query(`delete from ${table.ownRows} t using ${staging} s where ${match}`);
  } else {
    await client.query(`delete from ${table.ownRows}`);
  }
  const list = columns === "" ? "" : `(${columns}) `;
  const key = sqlList(relation.key.map((i) => relation.columns[i]!.name));
  const distinct = relation.isKeyedByHash ? `distinct on (${key}) ` : "";
  await client.query(
    `insert into ${sqlName(table.target)} ${list}overriding system value select ${distinct}${columns} from ${staging}`,
  );
}

/** Null without a key. */
function keyMatch(table: TargetTable, relation: Relation): string | null {
  if (relation.key.length === 0 || relation.isKeyedByHash) return null;
  const index = keyIndexOf(table, relation);
  const matches = relation.key.map((i) => {
    const { name } = relation.columns[i]!;
    const indexed = index?.columns.find(({ column }) => column === name);
    return equalSql(indexed, `t.${escapeIdentifier(name)}`, `s.${escapeIdentifier(name)}`);
  });
  return matches.join(" and ");
}

/** Somebody has added columns at the sink: what they hold is known to nobody else. */
function hasExtras(table: TargetTable, relation: Relation): boolean {
  return table.columns.some(
    ({ name, generated }) => !generated && !relation.columns.some((column) => column.name === name),
  );
}

/** Rows whose keys come again stay where they are: others refer to them, or they hold more than the copy brings. */
async function updateInPlace(
  client: Client,
  table: TargetTable,
  columns: string,
  { staging, relation, isMerged }: CopiedRows,
  match: string,
): Promise<void> {
  const isStaged = `exists (select from ${staging} s where ${match})`;
  if (!isMerged) await client.query(`delete from ${table.ownRows} t where not ${isStaged}`);
  const fixed = table.columns.filter(({ isFixed }) => isFixed).map(({ name }) => name);
  const written = relation.columns.map(({ name }) => name).filter((_, i) => !relation.key.includes(i));
  const differs = written
    .filter((name) => fixed.includes(name))
    .map((name) => `t.${escapeIdentifier(name)} is distinct from s.${escapeIdentifier(name)}`);
  if (differs.length > 0) {
    const condition = `${match} and (${differs.join(" or ")})`;
    await client.query(`delete from ${table.ownRows} t using ${staging} s where ${condition}`);
  }
  const set = written
    .filter((name) => !fixed.includes(name))
    .map((name) => `${escapeIdentifier(name)} = s.${escapeIdentifier(name)}`);
  if (set.length > 0) {
    await client.query(`update ${table.ownRows} t set ${set.join(", ")} from ${staging} s where ${match}`);
  }
  await client.query(
    `insert into ${sqlName(table.target)} (${columns}) overriding system value ` +
      `select ${columns} from ${staging} s where not exists (select from ${table.ownRows} t where ${match})`,
  );
}
