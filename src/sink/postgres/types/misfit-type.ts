// A type at the sink of the name of one of the source's own that the source has made anew, or altered, so that it no longer holds its
// values; and that this service may not make anew: somebody else has made it, or migration_strategy does not allow it.

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MigrationRefused } from "../schema/migration-refused.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable } from "../schema/target-table.ts";
import { isMisfit, readExistingTypes } from "./existing-type.ts";

/** Whether the server did not read a value: what `misfitRefused` may tell more of. */
export function isValueRefused(error: unknown): boolean {
  return sqlStateOf(error) === sqlState.invalidTextRepresentation;
}

/** What keeps the table from its rows, when the sink has refused one: columns of such a type. Null: there is none. */
export async function misfitRefused(
  client: Client,
  target: TargetName,
  relation: Relation,
): Promise<MigrationRefused | null> {
  const table = await readTargetTable(client, target);
  const definitions = relation.columns.flatMap(({ typeDefinitions }) => typeDefinitions ?? []);
  if (!table || definitions.length === 0) return null;
  const existing = await readExistingTypes(client, definitions);
  const misfits = relation.columns.filter(({ name, typeName, typeDefinitions = [] }) => {
    const isOfType = table.columns.some((column) => column.name === name && column.typeName === typeName);
    const isAny = typeDefinitions.some((definition) => {
      const there = existing.get(qualifiedName(definition));
      return there !== undefined && isMisfit(definition, there);
    });
    return isOfType && isAny;
  });
  if (misfits.length === 0) return null;
  const commands = misfits.map((column) => {
    const name = escapeIdentifier(column.name);
    return `alter table ${sqlName(target)} alter column ${name} type text using ${name}::text`;
  });
  const types = [...new Set(misfits.map(({ typeName }) => typeName))].join(", ");
  return new MigrationRefused(
    `Table ${qualifiedName(target)} at the sink has columns of types that are others than the source's of the same name (${types}), and ` +
      "that millrace has not made, or may not change. Make them as the source's are, or keep the values as text.",
    commands,
  );
}
