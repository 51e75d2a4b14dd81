// Finds the row that a constraint of a target has refused, if the server names only the constraint: after a set-wise merge, or a deferred check.
// It queries the constraint's definition and the rows.

import { type Client, DatabaseError, escapeIdentifier } from "pg";
import { keyNames, type Relation } from "../../../change/relation.ts";
import type { TargetTable } from "../schema/target-table.ts";
import { isRefusal, shownKey } from "./refused-row.ts";
import { CopyRowRefused } from "./refused-rows.ts";

export interface WrittenRows {
  readonly target: TargetTable;
  readonly relation: Relation;
  /** The table with the rows, as SQL: a staging table or the target itself. It has the relation's columns under their names. */
  readonly rows: string;
  /** Rows of the target with other keys stay. */
  readonly isMerged: boolean;
}

/** The search among many rows may take no longer. */
const longestLookMs = 20_000;

/**
 * Runs `write` in the open transaction, and then checks deferred constraints. If a row is refused, `write` is rolled back. Throws
 * CopyRowRefused if the row is found.
 */
export async function withRefusedKey(
  client: Client,
  written: WrittenRows,
  write: () => Promise<unknown> = async () => {},
): Promise<void> {
  await client.query("savepoint written");
  try {
    await write();
    await client.query("set constraints all immediate");
    await client.query("release savepoint written");
  } catch (error) {
    if (!(error instanceof DatabaseError) || !isRefusal(error)) throw error;
    await client.query("rollback to savepoint written");
    const key = await findKey(client, written, error).catch(() => null);
    throw key === null ? error : new CopyRowRefused(null, key, error);
  }
}

async function findKey(client: Client, written: WrittenRows, error: DatabaseError): Promise<string | null> {
  const names = keyNames(written.relation);
  if (names.length === 0) return null;
  await client.query(`set local statement_timeout = ${longestLookMs}`);
  const condition = await refusedSql(client, written, error);
  if (condition === null) return null;
  const key = names.map((name) => `r.${escapeIdentifier(name)}::text`).join(", ");
  const { rows } = await client.query<{ key: (string | null)[] }>(
    `select array[${key}] as key from ${aliased(written.rows, "r")} where ${condition} limit 1`,
  );
  return rows[0] ? shownKey(names, rows[0].key) : null;
}

/** The condition that selects refused rows `r`; null: not known. */
async function refusedSql(
  client: Client,
  written: WrittenRows,
  { column, constraint, schema, table }: DatabaseError,
): Promise<string | null> {
  const { target } = written.target;
  if (schema !== target.schema || table !== target.name) return null;
  if (constraint === undefined) return column === undefined ? null : `r.${escapeIdentifier(column)} is null`;
  const { rows } = await client.query<Constraint>(constraintQuery, [written.target.oid, constraint]);
  const [found] = rows;
  switch (found?.kind) {
    case "check":
      return `not (${found.expression})`;
    case "unique":
    case "exclusion":
      return takenSql(written, found);
    case "foreign key":
      return missingSql(written, found);
    default:
      return null;
  }
}

/** For a unique or an exclusion constraint: another of the rows, or one that stays, conflicts with `r`. */
function takenSql({ target, relation, rows, isMerged }: WrittenRows, constraint: Constraint): string {
  const key = keyNames(relation);
  const same = (one: string, other: string, names: readonly string[], operators: readonly string[]) =>
    names
      .map((name, i) => {
        const column = escapeIdentifier(name);
        return `${one}.${column} ${operators[i] ?? "="} ${other}.${column}`;
      })
      .join(" and ");
  const among =
    constraint.kind === "unique"
      ? `(${constraint.columns.map((name) => `r.${escapeIdentifier(name)}`).join(", ")}) in (select ${listed(constraint.columns)} ` +
        `from ${rows} group by ${listed(constraint.columns)} having count(*) > 1)`
      : `exists (select from ${aliased(rows, "o")} where o.ctid <> r.ctid and ${same("o", "r", constraint.columns, constraint.operators)})`;
  if (!isMerged) return among;
  const stays =
    `exists (select from ${aliased(target.ownRows, "o")} where ${same("o", "r", constraint.columns, constraint.operators)} ` +
    `and not exists (select from ${aliased(rows, "s")} where ${same("s", "o", key, [])}))`;
  return `(${among} or ${stays})`;
}

/** For a foreign key: the referenced row is missing. If the table refers to itself, that may also be among the rows. */
function missingSql({ target, rows }: WrittenRows, constraint: Constraint): string {
  const referred = constraint.referred_oid === target.oid ? rows : constraint.referred;
  const isSet = constraint.columns.map((name) => `r.${escapeIdentifier(name)} is not null`);
  const match = constraint.columns.map(
    (name, i) => `p.${escapeIdentifier(constraint.referred_columns[i]!)} = r.${escapeIdentifier(name)}`,
  );
  return `${isSet.join(" and ")} and not exists (select from ${aliased(referred, "p")} where ${match.join(" and ")})`;
}

function aliased(rows: string, alias: string): string {
  return `${rows} ${alias}`;
}

function listed(names: readonly string[]): string {
  return names.map(escapeIdentifier).join(", ");
}

interface Constraint {
  readonly kind: "check" | "unique" | "foreign key" | "exclusion";
  readonly columns: readonly string[];
  /** The operators of an exclusion constraint, in the order of its columns. */
  readonly operators: readonly string[];
  readonly expression: string;
  readonly referred: string;
  readonly referred_oid: number;
  readonly referred_columns: readonly string[];
}

const namesOf = (table: string, numbers: string) =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality k (n, i) ` +
  `join pg_attribute a on a.attrelid = ${table} and a.attnum = k.n order by k.i)`;

/** Includes unique indexes that are no constraints. Indexes over expressions and partial indexes are not supported. */
const constraintQuery = `
select case c.contype when 'c' then 'check' when 'f' then 'foreign key' when 'x' then 'exclusion' else 'unique' end as kind,
  ${namesOf("c.conrelid", "c.conkey")} as columns,
  array(select format('operator(%I.%s)', n.nspname, o.oprname) from unnest(c.conexclop) with ordinality k (id, i)
    join pg_operator o on o.oid = k.id join pg_namespace n on n.oid = o.oprnamespace order by k.i) as operators,
  pg_get_expr(c.conbin, c.conrelid) as expression, c.confrelid::regclass::text as referred, c.confrelid as referred_oid,
  ${namesOf("c.confrelid", "c.confkey")} as referred_columns
from pg_constraint c left join pg_index x on x.indexrelid = c.conindid and x.indrelid = c.conrelid
where c.conrelid = $1 and c.conname = $2 and c.contype in ('c', 'f', 'x', 'u', 'p')
  and (x.indexprs is null and x.indpred is null)
union all
select 'unique', ${namesOf("x.indrelid", "(x.indkey::int2[])[0:x.indnkeyatts - 1]")}, '{}', null, null, 0, '{}'
from pg_index x join pg_class i on i.oid = x.indexrelid
where x.indrelid = $1 and i.relname = $2 and x.indisunique and x.indexprs is null and x.indpred is null
  and not exists (select from pg_constraint c where c.conindid = x.indexrelid and c.contype in ('u', 'p', 'x'))`;
