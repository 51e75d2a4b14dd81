// Tells which types have a binary form that another server reads as the same value. Arrays and composites carry the
// OIDs of their element types, and the reg* types carry OIDs of objects: those differ between databases.

import type { Client } from "pg";
import { firstUnpinnedOid } from "../../change/relation.ts";

/** aclitem, regproc, regprocedure, regoper, regoperator, regclass, regtype, regconfig, regdictionary, regnamespace, regrole, regcollation, and arrays of them. */
const objectReferences = new Set([
  1033, 1034, 24, 1008, 2202, 2207, 2203, 2208, 2204, 2209, 2205, 2210, 2206, 2211, 3734, 3735, 3769, 3770,
  4089, 4090, 4096, 4097, 4191, 4192,
]);

interface TypeRow {
  oid: number;
  kind: string;
  base: number;
  element: number;
  subtype: number;
  has_binary: boolean;
}

const typesQuery = `
select t.oid, t.typtype as kind, t.typbasetype as base,
  case when t.typlen = -1 then t.typelem else 0::oid end as element,
  coalesce(r.rngsubtype, m.rngtypid, 0::oid) as subtype,
  t.typsend <> 0 and t.typreceive <> 0 as has_binary
from pg_type t
left join pg_range r on r.rngtypid = t.oid
left join pg_range m on m.rngmultitypid = t.oid
where t.oid = any($1::oid[])`;

export class BinarySafety {
  private constructor(private readonly types: ReadonlyMap<number, TypeRow>) {}

  /** Reads what is to be known of the types, and of those that they are made of. */
  static async read(client: Client, oids: readonly number[]): Promise<BinarySafety> {
    const types = new Map<number, TypeRow>();
    let wanted = [...new Set(oids)].filter((oid) => oid >= firstUnpinnedOid);
    while (wanted.length > 0) {
      const { rows } = await client.query<TypeRow>(typesQuery, [wanted]);
      for (const row of rows) types.set(row.oid, row);
      const parts = rows.flatMap((row) => [row.base, row.element, row.subtype]);
      wanted = [...new Set(parts)].filter((oid) => oid >= firstUnpinnedOid && !types.has(oid));
    }
    return new BinarySafety(types);
  }

  isSafe(oid: number): boolean {
    if (oid < firstUnpinnedOid) return !objectReferences.has(oid);
    const type = this.types.get(oid);
    if (!type) return false;
    switch (type.kind) {
      case "e":
        return true;
      case "d":
        return this.isSafe(type.base);
      case "r":
      case "m":
        return this.isSafe(type.subtype);
      case "b":
        return type.element === 0
          ? type.has_binary
          : type.element < firstUnpinnedOid && this.isSafe(type.element);
      default:
        return false;
    }
  }
}
