// Says what to do about tables that the connector selects and its publication does not have. Pure.

import { escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { listedNames } from "../../../errors/listed-names.ts";

type Name = Pick<Relation, "schema" | "name">;

/** With more of them, SQL and JSON for each would hide what the warning says. */
const mostSpelledOut = 10;

/** Two ways to end it: the publication takes the tables in, or the catalog leaves them out. */
export function unpublishedWarning(publication: string, tables: readonly Name[]): string {
  const list = tables.length <= mostSpelledOut ? tables.map(sqlName).join(", ") : "…";
  const sql = `ALTER PUBLICATION ${escapeIdentifier(publication)} ADD TABLE ${list};`;
  return notCarried(`Not in publication ${publication}`, tables, sql);
}

/** The same of the service's own publications, which cannot take in what the role may not publish; `sql` allows it. */
export function unpublishableWarning(tables: readonly (Name & { readonly sql: string })[]): string {
  const sql = new Set(tables.slice(0, mostSpelledOut).map((table) => table.sql));
  const more = tables.length > mostSpelledOut ? " …" : "";
  return notCarried("Not for the connector's role to publish", tables, [...sql].join(" ") + more);
}

function notCarried(why: string, tables: readonly Name[], sql: string): string {
  return (
    `${why}, and so not carried: ${named(tables)}. ` +
    `To carry ${them(tables)}, run at the source: ${sql} ${howToExclude(tables)}`
  );
}

/** How the catalog leaves the tables out, in the console and as JSON. */
export function howToExclude(tables: readonly Name[]): string {
  return `To leave ${them(tables)} out and end this warning, ${exclusion(tables)}`;
}

/** The same beside another way to end an error. */
export function orExclude(tables: readonly Name[]): string {
  return `Or leave out ${named(tables)}: ${exclusion(tables)}`;
}

function exclusion(tables: readonly Name[]): string {
  return (
    `untick ${them(tables)} in the console (Edit, Tables), or exclude ${them(tables)} in ` +
    `source.postgres: ${excludingCatalog(tables)}.`
  );
}

function excludingCatalog(tables: readonly Name[]): string {
  if (tables.length > mostSpelledOut)
    return '"catalog": {"default_action": "Exclude", "schemas": …}, with the tables that it is to carry in "schemas"';
  const bySchema = Map.groupBy(tables, ({ schema }) => schema);
  const schemas = [...bySchema].map(([schema, those]) => {
    const excluded = those.map(({ name }) => `{"name": ${JSON.stringify(name)}, "action": "Exclude"}`);
    return `{"name": ${JSON.stringify(schema)}, "tables": [${excluded.join(", ")}]}`;
  });
  return `"catalog": {"schemas": [${schemas.join(", ")}]}`;
}

function named(tables: readonly Name[]): string {
  const names = tables.map((table) => qualifiedName(table));
  return listedNames(names, mostSpelledOut);
}

function them(tables: readonly Name[]): string {
  return tables.length === 1 ? "it" : "them";
}
