// Records which connector has made a type at the sink, and whether others use it too. Labels of a type that several connectors use are never
// renamed: the rows of the others would read otherwise.

import type { Client } from "pg";
import type { TypeDefinition, TypeKey } from "../../../change/type-definition.ts";
import { type ExistingType, isSame } from "./existing-type.ts";

/** In the transaction that creates the type. */
export async function recordMade(
  client: Client,
  connectorId: string,
  { schema, name }: TypeKey,
): Promise<void> {
  await client.query(
    "insert into millrace.made_type (type_schema, type_name, connector_id) values ($1, $2, $3) " +
      "on conflict (type_schema, type_name) do update set connector_id = excluded.connector_id, is_shared = false",
    [schema, name, connectorId],
  );
}

const namedSql =
  "from unnest($2::text[], $3::text[]) as t(schema, name) where type_schema = t.schema and type_name = t.name";

/**
 * In the open transaction: marks other connectors' types as shared. Types of an earlier version, which recorded no connector, become the
 * connector's if they are as its source has them, and nobody's otherwise. Returns whether there are such.
 */
export async function claimTypes(
  client: Client,
  connectorId: string,
  wanted: ReadonlyMap<string, TypeDefinition>,
  existing: ReadonlyMap<string, ExistingType>,
): Promise<boolean> {
  const unclaimed = [...wanted].flatMap(([key, definition]) => {
    const type = existing.get(key);
    return type?.isUnclaimed && isSame(definition, type) ? [definition] : [];
  });
  if (unclaimed.length > 0)
    await client.query(
      `update millrace.made_type set connector_id = $1 ${namedSql} and connector_id is null`,
      [connectorId, ...names(unclaimed)],
    );
  await client.query(
    `update millrace.made_type set is_shared = true ${namedSql} and connector_id <> $1 and not is_shared`,
    [connectorId, ...names([...wanted.values()])],
  );
  return unclaimed.length > 0;
}

function names(types: readonly TypeKey[]): readonly (readonly string[])[] {
  return [types.map(({ schema }) => schema), types.map(({ name }) => name)];
}
