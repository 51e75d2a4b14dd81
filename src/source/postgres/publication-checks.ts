// What a publication that the source names means for a connector: whether it carries all that the connector wants, and the SQL
// that makes it. Pure.

import { escapeIdentifier } from "pg";
import { sqlName } from "../../connection/sql-name.ts";
import type { Finding } from "../../connection/validation-log.ts";
import { createPublicationSql } from "./privileges.ts";
import type { PublicationFacts, TableFacts } from "./source-facts.ts";
import { listedTables, tableCommands } from "./table-wording.ts";

const passed: Finding = { type: "passed" };

export interface NamedPublication {
  readonly name: string;
  /** Null: it does not exist. */
  readonly facts: PublicationFacts | null;
}

export function checkPublication(
  publication: NamedPublication | null,
  tables: readonly TableFacts[],
  wanted: WantedTables,
): Finding {
  const { asRoot } = wanted;
  if (!publication)
    return { type: "passed", message: "The service makes a publication of the selected tables." };
  const { name, facts } = publication;
  const identifier = escapeIdentifier(name);
  if (!facts) {
    return {
      type: "failed",
      reason: `The publication ${name} does not exist.`,
      commands: [createPublicationSql(name, tables, asRoot)],
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

/** What the connector wants of the tables that are selected. */
export interface WantedTables {
  readonly asRoot: boolean;
  readonly isCarried: IsCarried;
  /** The catalog includes it by name. */
  readonly isNamed: (table: TableFacts) => boolean;
}

/** Columns that the connector carries and the publication does not have. */
function unpublishedColumns(table: TableFacts, isCarried: IsCarried): readonly string[] {
  const { publishedColumns } = table;
  if (publishedColumns === null) return [];
  return table.columns.filter((column) => !publishedColumns.includes(column) && isCarried(table, column));
}

/** As a run takes it: a table that the catalog names must be in the publication, others are left out with a warning. */
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
    const message = `Not in publication ${name}, and so not carried: ${listedTables(left)}.`;
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

/** The table with all its rows, and the columns that are carried. */
function publishAnew(publication: string, table: TableFacts, isCarried: IsCarried): readonly string[] {
  const columns = table.columns.filter((column) => isCarried(table, column)).map(escapeIdentifier);
  const list = columns.length < table.columns.length ? ` (${columns.join(", ")})` : "";
  return [
    `ALTER PUBLICATION ${publication} DROP TABLE ${sqlName(table)};`,
    `ALTER PUBLICATION ${publication} ADD TABLE ${sqlName(table)}${list};`,
  ];
}
