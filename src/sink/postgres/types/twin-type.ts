// Where the source's own types are at the sink: in the schema that stands there for theirs. Those of extensions, and built-in ones,
// are called what they are. Pure.

import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import type { TypeDefinition, TypeKey, TypeUse } from "../../../change/type-definition.ts";

/** The same object where no type is elsewhere. */
export function twinTypes(relation: Relation, schemaOf: (schema: string) => string): Relation {
  const isElsewhere = ({ typeDefinitions }: Column) =>
    typeDefinitions?.some(({ schema }) => schemaOf(schema) !== schema) === true;
  if (!relation.columns.some(isElsewhere)) return relation;
  return { ...relation, columns: relation.columns.map((column) => twinColumn(column, schemaOf)) };
}

function twinColumn(column: Column, schemaOf: (schema: string) => string): Column {
  const { typeDefinitions } = column;
  const own = typeDefinitions?.at(-1);
  if (!typeDefinitions || !own) return column;
  const twin = (key: TypeKey) => ({ schema: schemaOf(key.schema), name: key.name });
  return {
    ...column,
    typeName: twinName(column.typeName, own, twin(own)),
    typeDefinitions: typeDefinitions.map((definition) => twinDefinition(definition, twin)),
  };
}

/** A type that only has a definition below it, as a multirange has, goes by its own name in that schema. */
function twinName(typeName: string, from: TypeKey, to: TypeKey): string {
  const schema = qualifiedName({ schema: from.schema, name: "x" }).slice(0, -1);
  const twin = qualifiedName({ schema: to.schema, name: "x" }).slice(0, -1);
  return typeName.startsWith(schema) ? twin + typeName.slice(schema.length) : typeName;
}

function twinDefinition(definition: TypeDefinition, twin: (key: TypeKey) => TypeKey): TypeDefinition {
  const use = ({ name, of }: TypeUse): TypeUse =>
    of === null ? { name, of } : { name: twinName(name, of, twin(of)), of: twin(of) };
  const key = twin(definition);
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
