// Finds user-defined types at the sink that do not take the source's values any more, and that millrace may not recreate: somebody else has
// created the type, or migration_strategy does not allow it.

import { type Client, escapeIdentifier } from "pg";
import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MigrationRefused, notAllowed } from "../refusals/migration-refused.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable } from "../schema/target-table.ts";
import { type ExistingType, isIncompatible, readExistingTypes } from "./existing-type.ts";
import { alterations } from "./type-alterations.ts";

/** Whether the server refused the form of a value, or the order of a range's bounds: `incompatibleTypeRefused` may find the reason. */
export function isValueRefused(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === sqlState.invalidTextRepresentation || state === sqlState.dataException;
}

/**
 * After the sink has refused a row: the change that the target needs because columns have such a type. Null: no column has one. `mayAlter`: millrace
 * adds what a type lacks.
 */
export async function incompatibleTypeRefused(
  client: Client,
  target: TargetName,
  relation: Relation,
  mayAlter: boolean,
): Promise<MigrationRefused | null> {
  const table = await readTargetTable(client, target);
  const definitions = relation.columns.flatMap(({ typeDefinitions }) => typeDefinitions ?? []);
  if (!table || definitions.length === 0) return null;
  const existing = await readExistingTypes(client, definitions, null);
  const ofType = relation.columns.filter(({ name, typeName }) =>
    table.columns.some((column) => column.name === name && column.typeName === typeName),
  );
  const misfits = ofType.filter(({ typeDefinitions = [] }) =>
    typeDefinitions.some((definition) => {
      const there = existing.get(qualifiedName(definition));
      return there !== undefined && isIncompatible(definition, there);
    }),
  );
  if (misfits.length === 0) {
    const lacking = mayAlter ? [] : ofType.flatMap((column) => lackingOf(column, existing));
    return lacking.length === 0 ? null : lackingRefused(target, [...new Set(lacking)]);
  }
  const commands = misfits.map((column) => {
    const name = escapeIdentifier(column.name);
    return `alter table ${sqlName(target)} alter column ${name} type text using ${name}::text`;
  });
  const types = [...new Set(misfits.map(({ typeName }) => typeName))].join(", ");
  return new MigrationRefused(
    `Table ${qualifiedName(target)} at the sink has columns whose types differ from the source's types of the same name (${types}). ` +
      "millrace did not make them, or may not change them. Make them as the source's are, or keep the values as text.",
    commands,
  );
}

/** The SQL that adds labels and attributes. */
function lackingOf(
  { typeDefinitions = [] }: Column,
  existing: ReadonlyMap<string, ExistingType>,
): readonly string[] {
  return typeDefinitions.flatMap((definition) => {
    const there = existing.get(qualifiedName(definition));
    const isAddedTo = definition.kind === "enum" || definition.kind === "composite";
    return there && isAddedTo ? alterations(definition, { ...there, isOurs: true }, false) : [];
  });
}

function lackingRefused(target: TargetName, commands: readonly string[]): MigrationRefused {
  return new MigrationRefused(
    `Types of columns of ${qualifiedName(target)} at the sink lack what the source's have by now. ${notAllowed}`,
    commands,
  );
}
