// The sink's types of the names that the source's own types have, and whether they hold the same values.
// https://www.postgresql.org/docs/current/catalog-pg-type.html

import type { Client } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import type { TypeDefinition, TypeKey } from "../../../change/type-definition.ts";

interface ExistingAttribute {
  readonly name: string;
  readonly type: string;
}

export interface ExistingType extends TypeKey {
  /** Of an enum, in their order. */
  readonly labels: readonly string[] | null;
  /** Of a domain. */
  readonly checks: readonly string[];
  readonly notNull: boolean;
  /** Of a composite, in their order. */
  readonly attributes: readonly ExistingAttribute[];
  /** Of a domain and of a range: the type that it is made of, as `format_type` prints it. */
  readonly madeOf: string | null;
  readonly kind: TypeDefinition["kind"] | "other";
  readonly oid: number;
  /** This service has made it. */
  readonly isOurs: boolean;
}

const existingQuery = `
select n.nspname as schema, t.typname as name,
  (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid) as labels,
  (select coalesce(json_agg(c.conname), '[]') from pg_constraint c where c.contypid = t.oid and c.contype = 'c') as checks,
  t.typnotnull as "notNull",
  (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum), '[]')
    from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) as attributes,
  case t.typtype when 'e' then 'enum' when 'd' then 'domain' when 'c' then 'composite' when 'r' then 'range' else 'other' end as kind,
  case t.typtype when 'd' then format_type(t.typbasetype, t.typtypmod)
    when 'r' then (select format_type(rngsubtype, null) from pg_range where rngtypid = t.oid) end as "madeOf", t.oid,
  exists (select from millrace.made_type m where m.type_schema = n.nspname and m.type_name = t.typname) as "isOurs"
from unnest($1::text[], $2::text[]) as wanted(schema, name)
join pg_namespace n on n.nspname = wanted.schema
join pg_type t on t.typnamespace = n.oid and t.typname = wanted.name`;

/** Those that are there, by their qualified names. The client's search_path must be empty. */
export async function readExistingTypes(
  client: Client,
  keys: readonly TypeKey[],
): Promise<ReadonlyMap<string, ExistingType>> {
  const { rows } = await client.query<ExistingType>(existingQuery, [
    keys.map(({ schema }) => schema),
    keys.map(({ name }) => name),
  ]);
  return new Map(rows.map((row) => [qualifiedName(row), row]));
}

/** How the values of a type lie: two that differ in it are not the same type. Labels and checks are no matter of it. */
export function formOf({ kind, madeOf, attributes }: ExistingType): string {
  return JSON.stringify([kind, madeOf, kind === "composite" ? attributes : []]);
}

/**
 * Whether the sink's type may be another than the source's has become: it was dropped and made anew there, or attributes have
 * gone, or are others. Attributes that have come behind the others can be added.
 */
export function isMisfit(definition: TypeDefinition, existing: ExistingType): boolean {
  if (existing.kind !== definition.kind) return true;
  switch (definition.kind) {
    case "enum":
      return false;
    case "domain":
      return definition.base.name !== existing.madeOf;
    case "range":
      return definition.subtype.name !== existing.madeOf;
    case "composite":
      return !existing.attributes.every(({ name, type }, i) => {
        const attribute = definition.attributes[i];
        return attribute?.name === name && attribute.type.name === type;
      });
    default:
      return definition satisfies never;
  }
}
