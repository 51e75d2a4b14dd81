// Writes the SQL by which somebody repairs a target. No data that is there makes it fail: what cannot be converted is emptied, as the copy that
// follows brings it, or, where no copy follows, is kept as text.

import { type Client, escapeIdentifier } from "pg";
import type { Column } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { nameBefore } from "../schema/migration/column-dependents.ts";
import { migrationSql } from "../schema/migration/migration-sql.ts";
import type { TableChange } from "../schema/migration/table-migration.ts";
import { resolveTypes } from "../schema/table-schema.ts";
import type { TargetColumn, TargetTable } from "../schema/target-table.ts";
import { holdsAll, type TypeDifference } from "../types/type-differences.ts";

export interface Repair {
  readonly commands: readonly string[];
  /** Values at the sink are lost by it, until a copy brings them. */
  readonly isEmptying: boolean;
}

/** For a table that is copied again afterwards. */
export async function repairSql(
  client: Client,
  table: TargetTable,
  changes: readonly TableChange[],
): Promise<Repair> {
  // Rows that are equal, or lack a value, cannot have the key.
  const isEmptied = changes.some((change) => isOfKey(table, change));
  const commands: string[] = isEmptied ? [`delete from ${table.ownRows}`] : [];
  let isEmptying = isEmptied;
  for (const change of changes) {
    const atSink =
      change.kind === "retype" &&
      table.columns.find(({ name }) => name === nameBefore(change.column.name, changes));
    if (!atSink || holdsAll(change.column.typeName, atSink.typeName)) {
      commands.push(...(await migrationSql(client, table.target, [change], false)));
    } else {
      commands.push(
        ...(await retypeSql(client, table, change.column, atSink, isEmptied ? "no row" : "null")),
      );
      isEmptying = true;
    }
  }
  return { commands, isEmptying };
}

/** For a table that is not copied again: all values that are there stay, and all that the source may send are taken. */
export async function keepingSql(
  client: Client,
  table: TargetTable,
  differing: readonly TypeDifference[],
): Promise<readonly string[]> {
  const commands: string[] = [];
  for (const { column, atSink } of differing) {
    const isSafe = holdsAll(column.typeName, atSink.typeName);
    const asText: Column = { ...column, typeOid: textOid, typmod: -1, typeName: "text" };
    commands.push(...(await retypeSql(client, table, isSafe ? column : asText, atSink, "value")));
  }
  return commands;
}

const textOid = 25;

async function retypeSql(
  client: Client,
  { target }: TargetTable,
  column: Column,
  { notNull, hasDefault }: TargetColumn,
  using: "null" | "no row" | "value",
): Promise<readonly string[]> {
  const name = escapeIdentifier(column.name);
  const [resolved] = await resolveTypes(client, [column]);
  const type = resolved?.name ?? "text";
  const alter = (clauses: readonly string[]) =>
    `alter table ${sqlName(target)} ${clauses.map((clause) => `alter column ${name} ${clause}`).join(", ")}`;
  return [
    // The server converts a default only where it has a cast for it, and looks at the identity before any clause has dropped that.
    ...(hasDefault ? [alter(["drop identity if exists", "drop default"])] : []),
    alter([
      ...(notNull && using === "null" ? ["drop not null"] : []),
      `type ${type} using ${using === "value" ? name : "null"}::${type}`,
    ]),
  ];
}

/** Whether the rows that are there may stand in the way of a key. */
function isOfKey({ columns, uniqueKeys }: TargetTable, change: TableChange): boolean {
  if (change.kind === "add key") return true;
  if (change.kind !== "retype") return false;
  const { name, typeName } = change.column;
  const atSink = columns.find((column) => column.name === name);
  const isSafe = atSink !== undefined && holdsAll(typeName, atSink.typeName);
  return !isSafe && uniqueKeys.some((key) => key.columns.some(({ column }) => column === name));
}
