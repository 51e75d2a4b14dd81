// Names the layout of a type's values in COPY BINARY, so that two servers can be compared: where the names are equal,
// the bytes mean the same. Arrays and composites carry the OIDs of their element types, and values of the reg* types
// are OIDs of objects: those differ between databases, so such a type has no name.

import type { Client } from "pg";

/** OIDs below it are the same on every server of every version. OIDs of objects that initdb or users made are not. */
export const firstUnpinnedOid = 12_000;

/**
 * Types whose values name objects of their own database: aclitem, regproc, regprocedure, regoper, regoperator,
 * regclass, regtype, regconfig, regdictionary, regnamespace, regrole, regcollation, and arrays of them.
 */
const objectReferences: ReadonlySet<number> = new Set([
  1033, 1034, 24, 1008, 2202, 2207, 2203, 2208, 2204, 2209, 2205, 2210, 2206, 2211, 3734, 3735, 3769, 3770,
  4089, 4090, 4096, 4097, 4191, 4192,
]);

/**
 * oidvector, int2vector, tsquery, and arrays of them: their receive functions refuse the empty value that their send
 * functions write.
 */
const refusedWhenEmpty: ReadonlySet<number> = new Set([30, 1013, 22, 1006, 3615, 3645]);

/** interval and its array: from version 17 on, the extreme values stand for infinity. */
const intervals: ReadonlySet<number> = new Set([1186, 1187]);
const intervalsHaveInfinity = 170_000;

interface TypeRow {
  oid: number;
  name: string;
  kind: string;
  base: number;
  element: number;
  subtype: number;
  has_binary: boolean;
  server: number;
}

const typesQuery = `
select t.oid, quote_ident(n.nspname) || '.' || quote_ident(t.typname) as name, t.typtype as kind, t.typbasetype as base,
  case when t.typlen = -1 then t.typelem else 0::oid end as element,
  coalesce(r.rngsubtype, m.rngtypid, 0::oid) as subtype,
  t.typsend <> 0 and t.typreceive <> 0 as has_binary,
  current_setting('server_version_num')::int4 as server
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_range r on r.rngtypid = t.oid
left join pg_catalog.pg_range m on m.rngmultitypid = t.oid
where t.oid = any($1::oid[])`;

const isLookedUp = (oid: number) => oid >= firstUnpinnedOid || intervals.has(oid);

export class BinaryLayouts {
  private constructor(private readonly types: ReadonlyMap<number, TypeRow>) {}

  /** Reads these types and the types they consist of. Built-in types need no query. */
  static async read(client: Client, oids: readonly number[]): Promise<BinaryLayouts> {
    const types = new Map<number, TypeRow>();
    let wanted = [...new Set(oids)].filter(isLookedUp);
    while (wanted.length > 0) {
      const { rows } = await client.query<TypeRow>(typesQuery, [wanted]);
      for (const row of rows) types.set(row.oid, row);
      const parts = rows.flatMap((row) => [row.base, row.element, row.subtype]);
      wanted = [...new Set(parts)].filter((oid) => isLookedUp(oid) && !types.has(oid));
    }
    return new BinaryLayouts(types);
  }

  /** Null: the bytes mean something on this server only, or the type has no binary form. */
  of(oid: number): string | null {
    const type = this.types.get(oid);
    if (oid < firstUnpinnedOid) {
      if (objectReferences.has(oid) || refusedWhenEmpty.has(oid)) return null;
      return intervals.has(oid) && type && type.server >= intervalsHaveInfinity
        ? `${oid} infinite`
        : `${oid}`;
    }
    if (!type) return null;
    switch (type.kind) {
      case "e":
        return "label";
      case "d":
        return this.of(type.base);
      case "r":
        return within("range", this.of(type.subtype));
      case "m":
        return within("multirange", this.of(type.subtype));
      case "b":
        return this.#ofBase(type);
      default:
        return null;
    }
  }

  #ofBase(type: TypeRow): string | null {
    // An array of a type that is not built in carries that type's OID.
    if (type.element >= firstUnpinnedOid || !type.has_binary) return null;
    return type.element !== 0 && this.of(type.element) === null ? null : type.name;
  }
}

function within(kind: string, subtype: string | null): string | null {
  return subtype === null ? null : `${kind}(${subtype})`;
}
