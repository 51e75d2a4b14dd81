// Reads the types at the sink that have the names of the source's user-defined types, and decides whether they have the same values.
// https://www.postgresql.org/docs/current/catalog-pg-type.html

import type { Client } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import type { RangeOrder, TypeDefinition, TypeKey } from "../../../change/type-definition.ts";
import { rangeOrderSql } from "../../../connection/column-locale.ts";

interface ExistingAttribute {
  readonly name: string;
  readonly type: string;
}

export interface ExistingType extends TypeKey {
  /** An enum's labels in their order. */
  readonly labels: readonly string[] | null;
  /** Names of a domain's checks. */
  readonly checks: readonly string[];
  readonly notNull: boolean;
  readonly hasDefault: boolean;
  /** A composite type's attributes in their order. */
  readonly attributes: readonly ExistingAttribute[];
  /** The base type of a domain, or the subtype of a range, as `format_type` prints it. */
  readonly madeOf: string | null;
  /** Of a range. */
  readonly order: RangeOrder | null;
  readonly kind: TypeDefinition["kind"] | "other";
  readonly oid: number;
  /** The connector that asks has created the type. */
  readonly isOurs: boolean;
  /** A connector of an earlier version has created it, which did not record who it was. */
  readonly isUnclaimed: boolean;
  /** Connectors that have not created it use it too. */
  readonly isShared: boolean;
}

const existingQuery = `
select n.nspname as schema, t.typname as name,
  (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid) as labels,
  (select coalesce(json_agg(c.conname), '[]') from pg_constraint c where c.contypid = t.oid and c.contype = 'c') as checks,
  t.typnotnull as "notNull", t.typdefault is not null as "hasDefault",
  (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum), '[]')
    from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) as attributes,
  case t.typtype when 'e' then 'enum' when 'd' then 'domain' when 'c' then 'composite' when 'r' then 'range' else 'other' end as kind,
  case t.typtype when 'd' then format_type(t.typbasetype, t.typtypmod)
    when 'r' then (select format_type(rngsubtype, null) from pg_range where rngtypid = t.oid) end as "madeOf", t.oid,
  (select ${rangeOrderSql("r")} from pg_range r where r.rngtypid = t.oid) as "order",
  (m.connector_id = $3) is true as "isOurs", m.type_name is not null and m.connector_id is null as "isUnclaimed",
  m.is_shared is true as "isShared"
from unnest($1::text[], $2::text[]) as wanted(schema, name)
join pg_namespace n on n.nspname = wanted.schema
join pg_type t on t.typnamespace = n.oid and t.typname = wanted.name
left join millrace.made_type m on m.type_schema = n.nspname and m.type_name = t.typname`;

/** Reads the types that exist, by qualified name. `connectorId`: who asks. The client's search_path must be empty. */
export async function readExistingTypes(
  client: Client,
  keys: readonly TypeKey[],
  connectorId: string | null,
): Promise<ReadonlyMap<string, ExistingType>> {
  const { rows } = await client.query<ExistingType>(existingQuery, [
    keys.map(({ schema }) => schema),
    keys.map(({ name }) => name),
    connectorId,
  ]);
  return new Map(rows.map((row) => [qualifiedName(row), row]));
}

/** The structure of a type's values. Types with different structures are not the same type. Labels and constraints do not count. */
export function formOf({ kind, madeOf, order, attributes }: ExistingType): string {
  return JSON.stringify([kind, madeOf, order, kind === "composite" ? attributes : []]);
}

/** Whether the types have the same values: labels in the same order, or the same structure. */
export function isSame(definition: TypeDefinition, existing: ExistingType): boolean {
  if (isIncompatible(definition, existing)) return false;
  if (definition.kind === "composite") return definition.attributes.length === existing.attributes.length;
  if (definition.kind !== "enum") return true;
  return Bun.deepEquals(
    definition.labels.map(({ name }) => name),
    existing.labels,
  );
}

/**
 * Whether the source's type may have changed in a way that the sink's type cannot follow: it was recreated, or attributes were dropped or
 * changed. New attributes at the end can be added.
 */
export function isIncompatible(definition: TypeDefinition, existing: ExistingType): boolean {
  if (existing.kind !== definition.kind) return true;
  switch (definition.kind) {
    case "enum":
      return false;
    case "domain":
      return definition.base.name !== existing.madeOf;
    case "range":
      return definition.subtype.name !== existing.madeOf || !Bun.deepEquals(definition.order, existing.order);
    case "composite":
      return !existing.attributes.every(({ name, type }, i) => {
        const attribute = definition.attributes[i];
        return attribute?.name === name && attribute.type.name === type;
      });
    default:
      return definition satisfies never;
  }
}
