// Records which labels the source's enums had when the sink's were last made to have them. The sink's types do not tell: one that was renamed may
// have got the name of a label which is there already.

import type { Client } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import type { EnumLabel, TypeDefinition, TypeKey } from "../../../change/type-definition.ts";
import type { EnumRename } from "./enum-changes.ts";

/** By the type's qualified name at the sink. */
export type KnownLabels = ReadonlyMap<string, readonly EnumLabel[]>;

export async function readKnownLabels(client: Client, connectorId: string): Promise<KnownLabels> {
  const { rows } = await client.query<TypeKey & { readonly labels: readonly EnumLabel[] }>(
    "select type_schema as schema, type_name as name, labels from millrace.enum_label where connector_id = $1",
    [connectorId],
  );
  return new Map(rows.map(({ labels, ...key }) => [qualifiedName(key), labels]));
}

/** Durable on return, unless a transaction is open. */
export async function recordLabels(
  client: Client,
  connectorId: string,
  wanted: ReadonlyMap<string, TypeDefinition>,
  known: KnownLabels,
): Promise<void> {
  for (const [key, definition] of wanted) {
    if (definition.kind !== "enum" || Bun.deepEquals(known.get(key), definition.labels)) continue;
    const { schema, name, labels } = definition;
    await client.query(
      "insert into millrace.enum_label (connector_id, type_schema, type_name, labels) values ($1, $2, $3, $4) " +
        "on conflict (connector_id, type_schema, type_name) do update set labels = excluded.labels",
      [connectorId, schema, name, JSON.stringify(labels)],
    );
  }
}

/** The labels that the source has renamed since. `known`: absent if nothing is known. */
export function renamedSince(
  known: readonly EnumLabel[] = [],
  definition: TypeDefinition,
): readonly EnumRename[] {
  if (definition.kind !== "enum") return [];
  const before = new Map(known.map(({ age, name }) => [age, name]));
  return definition.labels.flatMap(({ age, name: to }) => {
    const from = before.get(age) ?? to;
    return from === to ? [] : [{ kind: "rename", from, to } as const];
  });
}
