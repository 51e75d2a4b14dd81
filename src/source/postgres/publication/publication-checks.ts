// Checks whether a publication that the source names covers what the connector selects, with the SQL that fixes it; and
// warns of what the service's own publication means for the application. Pure.

import { escapeIdentifier } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";
import type { Finding } from "../../../connection/validation-log.ts";
import { createPublicationSql } from "../checks/privileges.ts";
import type { PublicationFacts, ServerFacts, TableFacts } from "../checks/source-facts.ts";
import { listedTables, tableCommands } from "../checks/table-wording.ts";
import { firstWithColumnLists } from "./column-list.ts";
import { howToExclude } from "./unpublished-wording.ts";

const passed: Finding = { type: "passed" };

export interface NamedPublication {
  readonly name: string;
  /** Null: it does not exist. */
  readonly facts: PublicationFacts | null;
}

/**
 * A publication of the service's own. While a table is published with a column list, the application cannot alter it as
 * before.
 */
export function checkOwnPublication(
  server: ServerFacts,
  tables: readonly TableFacts[],
  { isCarried }: Pick<WantedTables, "isCarried">,
): Finding {
  const listed = tables.filter(
    (table) => table.replicaIdentity !== "f" && table.columns.some((column) => !isCarried(table, column)),
  );
  if (server.version < firstWithColumnLists || listed.length === 0)
    return { type: "passed", message: "The service makes a publication of the selected tables." };
  return {
    type: "warned",
    message:
      `With a list of columns, so that those that are excluded never leave the server: ${listedTables(listed)}. While they are ` +
      "published, Postgres refuses DROP COLUMN and a new type of the others. Take the table out first, with the connector's id in " +
      "place of <id>; it is put back and copied again.",
    commands: tableCommands(listed, (table) => [
      `ALTER PUBLICATION ${escapeIdentifier("millrace_<id>")} DROP TABLE ${sqlName(table)};`,
    ]),
  };
}

export function checkPublication(
  { name, facts }: NamedPublication,
  tables: readonly TableFacts[],
  wanted: WantedTables,
): Finding {
  const { asRoot } = wanted;
  const identifier = escapeIdentifier(name);
  if (!facts) {
    return {
      type: "failed",
      reason: `The publication ${name} does not exist.`,
      commands: [`${createPublicationSql(name, tables, asRoot)};`],
    };
  }
  if (!(facts.insert && facts.update && facts.delete)) {
    return {
      type: "failed",
      reason: `The publication ${name} leaves out inserts, updates or deletes.`,
      commands: [`ALTER PUBLICATION ${identifier} SET (publish = 'insert, update, delete, truncate');`],
    };
  }
  if (facts.viaRoot !== asRoot) {
    return {
      type: "failed",
      reason: `partitions_as_root is ${asRoot}, and the publication ${name} does the opposite.`,
      commands: [`ALTER PUBLICATION ${identifier} SET (publish_via_partition_root = ${asRoot});`],
    };
  }
  return checkCoverage(name, facts, tables, wanted);
}

type IsCarried = (table: TableFacts, column: string) => boolean;

/** What the connector needs of the selected tables. */
export interface WantedTables {
  readonly asRoot: boolean;
  readonly isCarried: IsCarried;
  /** The catalog includes the table by name. */
  readonly isNamed: (table: TableFacts) => boolean;
}

/** Columns that the connector carries and the publication does not. */
function unpublishedColumns(table: TableFacts, isCarried: IsCarried): readonly string[] {
  const { publishedColumns } = table;
  if (publishedColumns === null) return [];
  return table.columns.filter((column) => !publishedColumns.includes(column) && isCarried(table, column));
}

/**
 * Judges as a run does: a table that the catalog names must be in the publication; others are left out with a warning.
 */
function checkCoverage(
  name: string,
  facts: PublicationFacts,
  tables: readonly TableFacts[],
  { isCarried, isNamed }: WantedTables,
): Finding {
  const identifier = escapeIdentifier(name);
  const left = tables.filter((table) => !table.isPublished);
  const addLeft = tableCommands(left, (table) => [
    `ALTER PUBLICATION ${identifier} ADD TABLE ${sqlName(table)};`,
  ]);
  if (left.some(isNamed)) {
    const reason = `The publication ${name} does not hold ${listedTables(left)}.`;
    return { type: "failed", reason, commands: addLeft };
  }
  const narrower = tables.filter(
    (table) => table.hasRowFilter || unpublishedColumns(table, isCarried).length > 0,
  );
  if (narrower.length > 0) {
    return {
      type: "failed",
      reason: `The publication ${name} filters rows or leaves out columns of ${listedTables(narrower)}, which the connector carries.`,
      commands: tableCommands(narrower, (table) => publishAnew(identifier, table, isCarried)),
    };
  }
  if (left.length > 0) {
    const message = `Not in publication ${name}, and so not carried: ${listedTables(left)}. The SQL adds them. ${howToExclude(left)}`;
    return { type: "warned", message, commands: addLeft };
  }
  if (!facts.truncate) {
    return {
      type: "warned",
      message: `The publication ${name} leaves out TRUNCATE: the sink keeps the rows.`,
      commands: [`ALTER PUBLICATION ${identifier} SET (publish = 'insert, update, delete, truncate');`],
    };
  }
  return passed;
}

/** Publishes the table again, with all its rows and the columns that the connector carries. */
function publishAnew(publication: string, table: TableFacts, isCarried: IsCarried): readonly string[] {
  const columns = table.columns.filter((column) => isCarried(table, column)).map(escapeIdentifier);
  const list = columns.length < table.columns.length ? ` (${columns.join(", ")})` : "";
  return [
    `ALTER PUBLICATION ${publication} DROP TABLE ${sqlName(table)};`,
    `ALTER PUBLICATION ${publication} ADD TABLE ${sqlName(table)}${list};`,
  ];
}
