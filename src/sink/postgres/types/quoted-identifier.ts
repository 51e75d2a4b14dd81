// Quotes an identifier as Postgres prints it in the name of a type, so that names can be compared. Pure.
// https://www.postgresql.org/docs/current/sql-keywords-appendix.html

/** All but the non-reserved ones, as of PostgreSQL 18. Those from JSON on have come since 15: older servers print them without quotes. */
const keywords = new Set(
  (
    "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast char character check " +
    "coalesce collate collation column concurrently constraint create cross current_catalog current_date current_role current_schema " +
    "current_time current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch " +
    "float for foreign freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect interval " +
    "into is isnull join lateral leading least left like limit localtime localtimestamp national natural nchar none normalize not notnull " +
    "null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real references returning " +
    "right row select session_user setof similar smallint some substring symmetric table tablesample then time timestamp to trailing treat " +
    "trim true union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists " +
    "xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable " +
    "json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value " +
    "merge_action system_user"
  ).split(" "),
);

/** As `quote_ident` does. */
export function quotedIdentifier(name: string): string {
  const isPlain = /^[a-z_][a-z0-9_]*$/.test(name) && !keywords.has(name);
  return isPlain ? name : `"${name.replaceAll('"', '""')}"`;
}
