// A column that millrace has made at the sink to be computed there as it is at the source. A comment marks it, so that it
// can follow the source's expression, and nobody else's generated column is touched.

import { escapeIdentifier, escapeLiteral } from "pg";
import type { GeneratedColumn } from "../../../change/relation.ts";
import { columnsRead } from "../../../connection/columns-read.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";

/** What a generated column of a target is. */
export interface TargetGenerated {
  readonly isVirtual: boolean;
  readonly expression: string;
  /** Names of the columns that the expression reads. As `GeneratedColumn.reads`. */
  readonly reads: readonly string[];
  /** What the comment tells; null: somebody else made the column. */
  readonly own: OwnComputed | null;
}

export interface OwnComputed {
  /** The source's number for the column. */
  readonly number: number;
  /** The source's expression when the column was made. */
  readonly expression: string;
}

const commentPattern = /^made by millrace: computed as column (\d+) of the source: (.*)$/s;

function parseComment(comment: string | null): OwnComputed | null {
  const match = commentPattern.exec(comment ?? "");
  return match ? { number: Number(match[1]), expression: match[2] ?? "" } : null;
}

/** SQL, for queries of pg_attribute `a` and pg_attrdef `d`. See `readGenerated`. */
export const generatedSql = `case when a.attgenerated <> '' then json_build_object(
  'isVirtual', a.attgenerated = 'v', 'expression', pg_get_expr(d.adbin, d.adrelid), 'comment', col_description(a.attrelid, a.attnum),
  'reads', (select coalesce(json_agg(u.attname order by r.place), '[]') from ${columnsRead("d.adbin")} r
    join pg_attribute u on u.attrelid = a.attrelid and u.attnum = r.number)) end`;

/** As `generatedSql` gives it. */
export type GeneratedRow = Omit<TargetGenerated, "own"> & { readonly comment: string | null };

export function readGenerated({ comment, ...generated }: GeneratedRow): TargetGenerated {
  return { ...generated, own: parseComment(comment) };
}

/** The column as CREATE TABLE and ADD COLUMN take it. `type`: as SQL. It may be null while rows are incomplete. */
export function computedSql({ column, expression, isVirtual }: GeneratedColumn, type: string): string {
  const kind = isVirtual ? "virtual" : "stored";
  return `${escapeIdentifier(column.name)} ${type} generated always as (${expression}) ${kind}`;
}

export function computedCommentSql(target: TargetName, { column, expression }: GeneratedColumn): string {
  const comment = `made by millrace: computed as column ${column.number} of the source: ${expression}`;
  return `comment on column ${sqlName(target)}.${escapeIdentifier(column.name)} is ${escapeLiteral(comment)}`;
}
