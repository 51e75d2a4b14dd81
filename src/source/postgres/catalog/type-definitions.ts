// Reads the definitions of user-defined types: enums, domains, composites and ranges. Types of extensions are left out,
// because only the extension can create them.
// https://www.postgresql.org/docs/current/catalog-pg-type.html

import type { Client } from "pg";
import type {
  EnumLabel,
  RangeOrder,
  TypeDefinition,
  TypeKey,
  TypeUse,
} from "../../../change/type-definition.ts";
import { firstUnpinnedOid } from "../../../connection/binary-layout.ts";
import { rangeOrderSql } from "../../../connection/column-locale.ts";

interface Part {
  readonly oid: number;
  readonly type: string;
}

interface TypeRow extends TypeKey {
  readonly oid: number;
  readonly kind: string;
  /** For an array its element type, for a multirange its range; 0: neither. */
  readonly stands_for: number;
  readonly is_extension: boolean;
  readonly labels: readonly EnumLabel[] | null;
  readonly base: Part | null;
  readonly attributes: readonly (Part & { readonly name: string; readonly number: number })[] | null;
  readonly subtype: Part | null;
  readonly multirange: string | null;
  readonly range_order: RangeOrder | null;
}

const typesQuery = `
select t.oid, n.nspname as schema, t.typname as name, t.typtype as kind,
  case when t.typlen = -1 and t.typtype = 'b' then t.typelem else coalesce(m.rngtypid, 0::oid) end as stands_for,
  exists (select from pg_depend d where d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e') as is_extension,
  (select json_agg(json_build_object('name', e.enumlabel, 'age', e.oid::int8) order by e.enumsortorder)
    from pg_enum e where e.enumtypid = t.oid) as labels,
  case when t.typtype = 'd' then
    json_build_object('oid', t.typbasetype::int8, 'type', format_type(t.typbasetype, t.typtypmod)) end as base,
  (select json_agg(json_build_object('name', a.attname, 'number', a.attnum, 'oid', a.atttypid::int8, 'type', format_type(a.atttypid, a.atttypmod))
      order by a.attnum)
    from pg_attribute a join pg_class r on r.oid = a.attrelid and r.relkind = 'c'
    where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) as attributes,
  case when t.typtype = 'r' then
    json_build_object('oid', r.rngsubtype::int8, 'type', format_type(r.rngsubtype, null)) end as subtype,
  (select mt.typname from pg_type mt where mt.oid = r.rngmultitypid) as multirange,
  case when t.typtype = 'r' then ${rangeOrderSql("r")} end as range_order
from pg_type t
join pg_namespace n on n.oid = t.typnamespace
left join pg_range r on r.rngtypid = t.oid
left join pg_range m on m.rngmultitypid = t.oid
where t.oid = any($1::oid[])`;

export class TypeDefinitions {
  readonly #known = new Map<number, readonly TypeDefinition[]>();

  private constructor(private readonly types: ReadonlyMap<number, TypeRow>) {}

  /** The client's search_path must be empty, so that type names are schema-qualified. Built-in types need no query. */
  static async read(client: Client, oids: readonly number[]): Promise<TypeDefinitions> {
    const types = new Map<number, TypeRow>();
    let wanted = [...new Set(oids)].filter((oid) => oid >= firstUnpinnedOid);
    while (wanted.length > 0) {
      const { rows } = await client.query<TypeRow>(typesQuery, [wanted]);
      for (const row of rows) types.set(row.oid, row);
      const parts = rows.flatMap((row) => [row.stands_for, ...partsOf(row).map(({ oid }) => oid)]);
      wanted = [...new Set(parts)].filter((oid) => oid >= firstUnpinnedOid && !types.has(oid));
    }
    return new TypeDefinitions(types);
  }

  /** The definitions that a column of the type needs, dependencies first. The same type gives the same array object. */
  of(oid: number): readonly TypeDefinition[] {
    const known = this.#known.get(oid);
    if (known) return known;
    const found = new Map<number, TypeDefinition>();
    this.#collect(oid, found);
    const definitions = [...found.values()];
    this.#known.set(oid, definitions);
    return definitions;
  }

  #collect(oid: number, found: Map<number, TypeDefinition>): void {
    const type = this.types.get(oid);
    if (!type || found.has(oid)) return;
    if (type.stands_for !== 0) {
      this.#collect(type.stands_for, found);
      return;
    }
    for (const part of partsOf(type)) this.#collect(part.oid, found);
    const definition = this.#define(type);
    if (definition) found.set(oid, definition);
  }

  #define({ schema, name, ...type }: TypeRow): TypeDefinition | null {
    if (type.is_extension) return null;
    const key = { schema, name };
    if (type.kind === "e") return { ...key, kind: "enum", labels: type.labels ?? [] };
    if (type.base) return { ...key, kind: "domain", base: this.#use(type.base) };
    if (type.subtype && type.range_order) {
      const { multirange, range_order: order } = type;
      return { ...key, kind: "range", subtype: this.#use(type.subtype), multirange, order };
    }
    if (type.kind !== "c" || !type.attributes) return null;
    const attributes = type.attributes.map((part) => ({
      name: part.name,
      number: part.number,
      type: this.#use(part),
    }));
    return { ...key, kind: "composite", attributes };
  }

  #use(part: Part): TypeUse {
    const type = this.types.get(part.oid);
    const own = type && type.stands_for !== 0 ? this.types.get(type.stands_for) : type;
    const isDefined = own !== undefined && this.#define(own) !== null;
    // A multirange has a name of its own.
    const isNamed = type?.kind !== "m";
    return {
      name: part.type,
      of: isDefined && isNamed ? { schema: own.schema, name: own.name } : null,
    };
  }
}

function partsOf({ base, attributes, subtype }: TypeRow): readonly Part[] {
  return [...(base ? [base] : []), ...(attributes ?? []), ...(subtype ? [subtype] : [])];
}
