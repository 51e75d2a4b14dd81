// Reads what columns' types are beyond their names: the layout of their binary values, their definitions, and for a
// domain, or an array of one, the base type that their values print as.
// https://www.postgresql.org/docs/current/catalog-pg-type.html

import type { Client } from "pg";
import type { Column, DomainBase } from "../../../change/relation.ts";
import { BinaryLayouts, firstUnpinnedOid } from "../../../connection/binary-layout.ts";
import { TypeDefinitions } from "./type-definitions.ts";

interface BaseRow {
  root: number;
  type_oid: number;
  typmod: number;
  type_name: string;
  delimiter: string | null;
}

/** An array of a domain over an array prints its elements as texts, and no other type reads it. */
const basesQuery = `
with recursive under as (
  select r.oid as root, case when e.typtype = 'd' then e.oid else r.oid end as oid, -1 as typmod, e.typtype = 'd' as is_array
  from pg_type r left join pg_type e on e.oid = r.typelem and r.typlen = -1
  where r.oid = any($1::oid[]) and (r.typtype = 'd' or e.typtype = 'd')
  union all
  select u.root, t.typbasetype, t.typtypmod, u.is_array
  from under u join pg_type t on t.oid = u.oid where t.typtype = 'd'
)
select u.root, b.oid as type_oid, u.typmod, format_type(b.oid, u.typmod) as type_name, nullif(e.typdelim, ',') as delimiter
from under u
join pg_type base on base.oid = u.oid and base.typtype <> 'd' and not (coalesce(u.is_array, false) and base.typcategory = 'A')
join pg_type b on b.oid = case when u.is_array then base.typarray else base.oid end
left join pg_type e on e.oid = b.typelem`;

type ColumnType = Pick<Column, "binaryLayout" | "domainBase" | "typeDefinitions">;

export class TypeCatalog {
  private constructor(
    private readonly layouts: BinaryLayouts,
    private readonly bases: ReadonlyMap<number, DomainBase>,
    private readonly definitions: TypeDefinitions,
  ) {}

  /** The client's search_path must be empty, so that type names are schema-qualified. */
  static async read(client: Client, oids: readonly number[]): Promise<TypeCatalog> {
    return new TypeCatalog(
      await BinaryLayouts.read(client, oids),
      await readDomainBases(client, oids),
      await TypeDefinitions.read(client, oids),
    );
  }

  of(oid: number): ColumnType {
    const base = this.bases.get(oid);
    const typeDefinitions = this.definitions.of(oid);
    return {
      binaryLayout: this.layouts.of(oid),
      ...(base ? { domainBase: base } : {}),
      ...(typeDefinitions.length > 0 ? { typeDefinitions } : {}),
    };
  }
}

async function readDomainBases(
  client: Client,
  oids: readonly number[],
): Promise<ReadonlyMap<number, DomainBase>> {
  const own = [...new Set(oids)].filter((oid) => oid >= firstUnpinnedOid);
  if (own.length === 0) return new Map();
  const { rows } = await client.query<BaseRow>(basesQuery, [own]);
  return new Map(
    rows.map((row) => [
      row.root,
      {
        typeOid: row.type_oid,
        typmod: row.typmod,
        typeName: row.type_name,
        ...(row.delimiter === null ? {} : { arrayDelimiter: row.delimiter }),
      },
    ]),
  );
}
