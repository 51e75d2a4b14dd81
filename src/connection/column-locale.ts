// SQL for the locale of a column: two columns of one locale, on whatever servers, compare, sort and convert text alike.
// https://www.postgresql.org/docs/current/catalog-pg-collation.html

/** The collation `default` stands for the database's locale. */
const defaultCollation = 100;

/** SQL for the locale of text whose collation is the default. */
export const databaseLocaleSql =
  "(select concat_ws('/', coalesce(to_jsonb(l) ->> 'datlocprovider', 'c'), l.datcollate, l.datctype, " +
  "to_jsonb(l) ->> 'datlocale', to_jsonb(l) ->> 'daticulocale', getdatabaseencoding()) " +
  "from pg_database l where l.datname = current_database())";

/** `column`: a row of pg_attribute. Null: the type has no collation. The catalogs' columns differ by version, hence to_jsonb. */
export function columnLocaleSql(column: string): string {
  const collation =
    "concat_ws('/', l.collprovider, l.collcollate, l.collctype, to_jsonb(l) ->> 'colllocale', " +
    "to_jsonb(l) ->> 'colliculocale', getdatabaseencoding())";
  return (
    `case ${column}.attcollation when 0 then null ` +
    `when ${defaultCollation} then ${databaseLocaleSql} ` +
    `else (select ${collation} from pg_collation l where l.oid = ${column}.attcollation) end`
  );
}
