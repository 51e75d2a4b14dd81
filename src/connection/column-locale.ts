// SQL for the locale of a column, or of a range: two of one locale, on whatever servers, compare, sort and convert text alike.
// https://www.postgresql.org/docs/current/catalog-pg-collation.html

import { firstUnpinnedOid } from "./binary-layout.ts";

/** The collation `default` stands for the database's locale. */
const defaultCollation = 100;

/** SQL for the locale of text whose collation is the default. */
export const databaseLocaleSql =
  "(select concat_ws('/', coalesce(to_jsonb(l) ->> 'datlocprovider', 'c'), l.datcollate, l.datctype, " +
  "to_jsonb(l) ->> 'datlocale', to_jsonb(l) ->> 'daticulocale', getdatabaseencoding()) " +
  "from pg_database l where l.datname = current_database())";

/** `column`: a row of pg_attribute. Null: the type has no collation. */
export function columnLocaleSql(column: string): string {
  return localeSql(`${column}.attcollation`);
}

/** SQL for a `RangeOrder` as JSON; `range`: a row of pg_range. */
export function rangeOrderSql(range: string): string {
  const name = (schema: string, own: string) =>
    `select quote_ident(n.nspname) || '.' || quote_ident(${own}) from pg_namespace n where n.oid = ${schema}`;
  return `json_build_object(
    'opclass', (select (${name("o.opcnamespace", "o.opcname")}) from pg_opclass o
      where o.oid = ${range}.rngsubopc and not (o.opcdefault and o.oid < ${firstUnpinnedOid})),
    'collation', (select (${name("l.collnamespace", "l.collname")}) from pg_collation l
      join pg_type s on s.oid = ${range}.rngsubtype and s.typcollation <> l.oid where l.oid = ${range}.rngcollation),
    'locale', ${localeSql(`${range}.rngcollation`)})`;
}

/** `collation`: its OID; 0: none. The catalogs' columns differ by version, hence to_jsonb. */
function localeSql(collation: string): string {
  const own =
    "concat_ws('/', l.collprovider, l.collcollate, l.collctype, to_jsonb(l) ->> 'colllocale', " +
    "to_jsonb(l) ->> 'colliculocale', getdatabaseencoding())";
  return (
    `case ${collation} when 0 then null ` +
    `when ${defaultCollation} then ${databaseLocaleSql} ` +
    `else (select ${own} from pg_collation l where l.oid = ${collation}) end`
  );
}
