// Completes a relation that the stream announced with what only the catalog knows. It is asked as it is now, which is
// later than the announcement: what types are called and how they travel, and a primary key's columns, are all that is
// taken from it.

import type { Client } from "pg";
import type { Column, Relation } from "../../change/relation.ts";
import { BinaryLayouts } from "../../connection/binary-layout.ts";

const typeNamesQuery = `
select format_type(c.type_oid, c.typmod) as name, nullif(e.typdelim, ',') as delimiter
from unnest($1::oid[], $2::int4[]) with ordinality as c(type_oid, typmod, place)
left join pg_type t on t.oid = c.type_oid left join pg_type e on e.oid = t.typelem
order by c.place`;

const primaryKeyQuery = `
select a.attname as name
from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey::int2[])
where i.indrelid = $1 and i.indisprimary and i.indisvalid and i.indimmediate`;

/** The client's search_path must be empty, so that type names are qualified. */
export async function describeRelation(client: Client, relation: Relation): Promise<Relation> {
  const columns = await describeTypes(client, relation.columns);
  if (relation.replicaIdentity !== "full") return { ...relation, columns };
  const { rows } = await client.query<{ name: string }>(primaryKeyQuery, [relation.id]);
  const primaryKey = rows.map((row) => row.name);
  return {
    ...relation,
    columns,
    key: columns.flatMap((column, i) => (primaryKey.includes(column.name) ? [i] : [])),
  };
}

async function describeTypes(client: Client, columns: readonly Column[]): Promise<readonly Column[]> {
  const { rows } = await client.query<{ name: string; delimiter: string | null }>(typeNamesQuery, [
    columns.map((column) => column.typeOid),
    columns.map((column) => column.typmod),
  ]);
  const layouts = await BinaryLayouts.read(
    client,
    columns.map((column) => column.typeOid),
  );
  return columns.map((column, i) =>
    column.typeName !== ""
      ? column
      : {
          ...column,
          typeName: rows[i]?.name ?? "text",
          binaryLayout: layouts.of(column.typeOid),
          ...(rows[i]?.delimiter ? { arrayDelimiter: rows[i].delimiter } : {}),
        },
  );
}
