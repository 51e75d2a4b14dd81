// Makes a target's computed columns what the source's generated columns are.

import { type Client, escapeIdentifier } from "pg";
import { type GeneratedColumn, qualifiedName, type TableShape } from "../../../change/relation.ts";
import { inSavepoint } from "../../../connection/in-savepoint.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { MigrationStrategy } from "../schema/migration/table-migration.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetTable } from "../schema/target-table.ts";
import { computedCommentSql, computedSql } from "./computed-column.ts";
import { type ComputedPlan, planComputed } from "./computed-plan.ts";

/**
 * In the open transaction, for a target that follows the shape's relation. Returns whether it was altered. Where the
 * server refuses (a view uses the column, a row at the sink does not suit the expression), the target stays as it is,
 * and `warn` gets the reason.
 */
export async function makeComputed(
  client: Client,
  table: TargetTable,
  shape: TableShape,
  strategy: MigrationStrategy,
  warn: (reason: string) => void,
): Promise<boolean> {
  const statements = planSql(table.target, planComputed(table, shape, strategy));
  if (statements.length === 0) return false;
  try {
    await inSavepoint(client, async () => {
      for (const sql of statements) await client.query(sql);
    });
    return true;
  } catch (error) {
    if (!/^(0A|22|23|2B|42)/.test(sqlStateOf(error) ?? "")) throw error;
    warn(
      `The generated columns of ${qualifiedName(table.target)} cannot be made at the sink (SQLSTATE ${sqlStateOf(error)}). ` +
        `To see why, run: ${statements.map((sql) => `${sql};`).join(" ")}`,
    );
    return false;
  }
}

function planSql(target: TargetName, { drops, renames, adds }: ComputedPlan): readonly string[] {
  const alter = `alter table ${sqlName(target)}`;
  return [
    ...drops.map((name) => `${alter} drop column ${escapeIdentifier(name)}`),
    ...renames.map(
      ({ from, to }) => `${alter} rename column ${escapeIdentifier(from)} to ${escapeIdentifier(to)}`,
    ),
    ...adds.flatMap((column) => addSql(target, column)),
  ];
}

/** The type is the source's: the sink has it, as it was asked whether it can compute the column. */
function addSql(target: TargetName, column: GeneratedColumn): readonly string[] {
  return [
    `alter table ${sqlName(target)} add column ${computedSql(column, column.column.typeName)}`,
    computedCommentSql(target, column),
  ];
}

/** `drops` and `undone` of `Cleared`, as SQL. */
export function clearSql(
  target: TargetName,
  { drops, undone }: { readonly drops: readonly string[]; readonly undone: readonly string[] },
): readonly string[] {
  const alter = `alter table ${sqlName(target)}`;
  return [
    ...drops.map((name) => `${alter} drop column ${escapeIdentifier(name)}`),
    ...undone.flatMap((name) => [
      `${alter} alter column ${escapeIdentifier(name)} drop expression`,
      `comment on column ${sqlName(target)}.${escapeIdentifier(name)} is null`,
    ]),
  ];
}
