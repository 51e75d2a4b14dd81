// Writes the source's user-defined types as SQL for the sink.
// https://www.postgresql.org/docs/current/sql-createtype.html

import { escapeIdentifier, escapeLiteral } from "pg";
import type { TypeDefinition, TypeUse } from "../../../change/type-definition.ts";
import { sqlName } from "../../../connection/sql-name.ts";

/** Without a semicolon. */
export function createTypeSql(definition: TypeDefinition): string {
  const name = sqlName(definition);
  switch (definition.kind) {
    case "enum":
      return `create type ${name} as enum (${definition.labels.map((label) => escapeLiteral(label.name)).join(", ")})`;
    case "domain":
      return `create domain ${name} as ${useSql(definition.base)}`;
    case "composite": {
      const attributes = definition.attributes.map(
        (attribute) => `${escapeIdentifier(attribute.name)} ${useSql(attribute.type)}`,
      );
      return `create type ${name} as (${attributes.join(", ")})`;
    }
    case "range": {
      const { subtype, multirange, schema, order } = definition;
      const clauses = [
        ["subtype", useSql(subtype)],
        ["subtype_opclass", order.opclass],
        ["collation", order.collation],
        ["multirange_type_name", multirange === null ? null : sqlName({ schema, name: multirange })],
      ].filter(([, value]) => value !== null);
      return `create type ${name} as range (${clauses.map((clause) => clause.join(" = ")).join(", ")})`;
    }
    default:
      return definition satisfies never;
  }
}

/** The type's name as a column or an attribute uses it. */
export function useSql({ name, of }: TypeUse): string {
  return of === null ? name : `${sqlName(of)}${name.endsWith("[]") ? "[]" : ""}`;
}
