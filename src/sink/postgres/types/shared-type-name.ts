// Finds types of several source schemas that would be one type at the sink, and are not the same. Pure.

import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { TypeDefinition } from "../../../change/type-definition.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { relocateTypes } from "./type-relocation.ts";

/** Throws `sink_schema_mismatch` if there are such. `relations`: as the source has them now. */
export function requireSameTypes(relations: readonly Relation[], schemaOf: (schema: string) => string): void {
  const known = new Map<string, { readonly source: string; readonly form: string }>();
  for (const relation of relations) {
    const definitions = definitionsOf(relation);
    const atSink = definitionsOf(relocateTypes(relation, schemaOf));
    for (const [i, definition] of definitions.entries()) {
      const name = qualifiedName(atSink[i]!);
      const type = { source: qualifiedName(definition), form: formOf(atSink[i]!) };
      const other = known.get(name) ?? type;
      if (other.source !== type.source && other.form !== type.form)
        throw notTheSame(other.source, type.source, name);
      known.set(name, other);
    }
  }
}

function definitionsOf({ columns }: Relation): readonly TypeDefinition[] {
  return columns.flatMap(({ typeDefinitions }) => typeDefinitions ?? []);
}

/** Without the source's own numbers, which differ between equal types. */
function formOf(definition: TypeDefinition): string {
  return JSON.stringify(definition, (key, value) => (key === "age" || key === "number" ? undefined : value));
}

function notTheSame(one: string, other: string, name: string): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `Types ${one} and ${other} of the source would both be ${name} at the sink, and are not the same: alter one of them so that they ` +
      "are, leave the columns of one out of the catalog, or change target_schema or identifier_naming.",
  );
}
