// How a type at the sink is altered so that it takes the source's values. Pure.
// https://www.postgresql.org/docs/current/sql-altertype.html

import { escapeIdentifier, escapeLiteral } from "pg";
import type { TypeDefinition } from "../../../change/type-definition.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { type EnumChange, enumChanges } from "./enum-changes.ts";
import { type ExistingType, isIncompatible } from "./existing-type.ts";
import { useSql } from "./type-sql.ts";

/** The SQL that makes a type take the source's values. Types of others get only new labels. */
export function alterations(
  definition: TypeDefinition,
  existing: ExistingType,
  mayRename: boolean,
): readonly string[] {
  const alter = `alter ${definition.kind === "domain" ? "domain" : "type"} ${sqlName(definition)}`;
  return clauses(definition, existing, mayRename).map((clause) => `${alter} ${clause}`);
}

function clauses(definition: TypeDefinition, existing: ExistingType, mayRename: boolean): readonly string[] {
  switch (definition.kind) {
    case "enum":
      return enumChanges(definition.labels, existing.labels ?? [], areLabelsOurs(existing) && mayRename).map(
        labelClause,
      );
    case "domain": {
      // Earlier versions made domains with these. What they call runs as the sink's role, whoever has written it at the source.
      const { isOurs, checks, notNull, hasDefault } = existing;
      const drops = checks.map((check) => `drop constraint ${escapeIdentifier(check)}`);
      if (notNull) drops.push("drop not null");
      if (hasDefault) drops.push("drop default");
      return isOurs ? drops : [];
    }
    case "composite": {
      const { attributes } = definition;
      if (!existing.isOurs || isIncompatible(definition, existing)) return [];
      return attributes
        .slice(existing.attributes.length)
        .map(({ name, type }) => `add attribute ${escapeIdentifier(name)} ${useSql(type)}`);
    }
    case "range":
      return [];
    default:
      return definition satisfies never;
  }
}

function labelClause(change: EnumChange): string {
  if (change.kind === "rename") {
    return `rename value ${escapeLiteral(change.from)} to ${escapeLiteral(change.to)}`;
  }
  const place = change.before === null ? "" : ` before ${escapeLiteral(change.before)}`;
  return `add value if not exists ${escapeLiteral(change.label)}${place}`;
}

/** Whether a label that is renamed is renamed in rows of this connector alone. */
export function areLabelsOurs(existing: ExistingType | undefined): boolean {
  return existing?.isOurs === true && !existing.isShared;
}
