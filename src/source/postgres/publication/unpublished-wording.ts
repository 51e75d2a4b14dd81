// Says what to do about tables that the connector selects and the user's publication does not have. Pure.

import { escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { listedNames } from "../checks/table-wording.ts";

type Name = Pick<Relation, "schema" | "name">;

/** With more of them, SQL and JSON for each would hide what the warning says. */
const mostSpelledOut = 10;

/** Two ways to end it: the publication takes the tables in, or the catalog leaves them out. */
export function unpublishedWarning(publication: string, tables: readonly Name[]): string {
  const names = listedNames(
    tables.map((table) => qualifiedName(table)),
    mostSpelledOut,
  );
  const list = tables.length <= mostSpelledOut ? tables.map(sqlName).join(", ") : "…";
  return (
    `Not in publication ${publication}, and so not carried: ${names}. ` +
    `To carry ${them(tables)}, run at the source: ALTER PUBLICATION ${escapeIdentifier(publication)} ADD TABLE ${list}; ` +
    howToExclude(tables)
  );
}

/** How the catalog leaves the tables out, in the console and as JSON. */
export function howToExclude(tables: readonly Name[]): string {
  return (
    `To leave ${them(tables)} out and end this warning, untick ${them(tables)} in the console (Edit, Tables), or exclude ${them(tables)} in ` +
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

function them(tables: readonly Name[]): string {
  return tables.length === 1 ? "it" : "them";
}
