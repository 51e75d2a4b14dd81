// Moves the source's user-defined types to the schema that stands for theirs at the sink. Types of extensions and built-in ones keep their
// names. Pure.

import type { Column, Relation } from "../../../change/relation.ts";
import type { TypeDefinition, TypeKey, TypeUse } from "../../../change/type-definition.ts";
import { quotedIdentifier } from "./quoted-identifier.ts";

/** Returns the same relation if no type moves. */
export function relocateTypes(relation: Relation, schemaOf: (schema: string) => string): Relation {
  const isElsewhere = ({ typeDefinitions }: Column) =>
    typeDefinitions?.some(({ schema }) => schemaOf(schema) !== schema) === true;
  if (!relation.columns.some(isElsewhere)) return relation;
  return { ...relation, columns: relation.columns.map((column) => relocateColumn(column, schemaOf)) };
}

function relocateColumn(column: Column, schemaOf: (schema: string) => string): Column {
  const { typeDefinitions } = column;
  const own = typeDefinitions?.at(-1);
  if (!typeDefinitions || !own) return column;
  const relocated = (key: TypeKey) => ({ schema: schemaOf(key.schema), name: key.name });
  return {
    ...column,
    typeName: relocateName(column.typeName, own, relocated(own)),
    typeDefinitions: typeDefinitions.map((definition) => relocateDefinition(definition, relocated)),
  };
}

/** A type that has no definition of its own, such as a multirange, keeps its name in the new schema. */
function relocateName(typeName: string, from: TypeKey, to: TypeKey): string {
  const schema = `${quotedIdentifier(from.schema)}.`;
  return typeName.startsWith(schema)
    ? `${quotedIdentifier(to.schema)}.${typeName.slice(schema.length)}`
    : typeName;
}

function relocateDefinition(
  definition: TypeDefinition,
  relocated: (key: TypeKey) => TypeKey,
): TypeDefinition {
  const use = ({ name, of }: TypeUse): TypeUse =>
    of === null ? { name, of } : { name: relocateName(name, of, relocated(of)), of: relocated(of) };
  const key = relocated(definition);
  switch (definition.kind) {
    case "enum":
      return { ...definition, ...key };
    case "domain":
      return { ...definition, ...key, base: use(definition.base) };
    case "composite":
      return {
        ...definition,
        ...key,
        attributes: definition.attributes.map((attribute) => ({ ...attribute, type: use(attribute.type) })),
      };
    case "range":
      return { ...definition, ...key, subtype: use(definition.subtype) };
    default:
      return definition satisfies never;
  }
}
