// Uses a publication that the user owns as it is, and compares it with what the connector selects: what it leaves out
// would be copied once and never change again.
// https://www.postgresql.org/docs/current/view-pg-publication-tables.html

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { readUndisturbed } from "./undisturbed-read.ts";
import { unpublishedWarning } from "./unpublished-wording.ts";

interface PublicationRow {
  via_root: boolean;
  /** Those of insert, update, delete and truncate that it does not publish. */
  left_out: string;
}

/** A table in a publication. */
export interface PublicationMember {
  schema: string;
  name: string;
  /** Null before PostgreSQL 15: all columns. */
  columns: string[] | null;
  has_row_filter: boolean;
  /** It has a column list: a column that is added to the table is not published. */
  is_listed: boolean;
}

/** By `schema.table`. */
export type PublicationMembers = ReadonlyMap<string, PublicationMember>;

/** The members that were read last. `isCurrent`: false where a later read failed. */
export interface KnownMembers {
  readonly members: PublicationMembers;
  readonly isCurrent: boolean;
}

const publicationQuery = `
select pubviaroot as via_root, concat_ws(', ', case when not pubinsert then 'insert' end,
  case when not pubupdate then 'update' end, case when not pubdelete then 'delete' end,
  case when not pubtruncate then 'truncate' end) as left_out
from pg_publication where pubname = $1`;

/**
 * Since PostgreSQL 15 the view has columns and row filters, and the catalog has column lists. A partition takes its
 * root's list.
 */
const membersQuery = `
with listed as materialized (
  select r.prrelid from pg_publication_rel r join pg_publication pub on pub.oid = r.prpubid
  where pub.pubname = $1 and jsonb_typeof(to_jsonb(r) -> 'prattrs') = 'array'
)
select p.schemaname as schema, p.tablename as name, to_jsonb(p) -> 'attnames' as columns,
  to_jsonb(p) ->> 'rowfilter' is not null as has_row_filter,
  c.oid in (select prrelid from listed)
    or c.relispartition and exists (select from pg_partition_ancestors(c.oid) a where a.relid in (select prrelid from listed))
    as is_listed
from pg_publication_tables p
join pg_namespace n on n.nspname = p.schemaname
join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
where p.pubname = $1`;

/** Throws `table_unreadable` where a table of the publication stays locked. */
export async function readMembers(client: Client, publication: string): Promise<PublicationMembers> {
  const { rows } = await readUndisturbed(client, () =>
    client.query<PublicationMember>(membersQuery, [publication]),
  );
  return new Map(rows.map((row) => [qualifiedName(row), row]));
}

/**
 * The selected tables that the publication contains. Members that are not current are not compared with the selection.
 * A table that the catalog includes by name (`isNamed`) must be in the publication. Other absent tables are left out,
 * and `warn` gets the reason; null: there is nothing to warn of.
 *
 * Throws `publication_missing`, or `publication_mismatch` with the SQL or the setting that fixes it.
 */
export async function publishedTables<Table extends TableShape>(
  client: Client,
  publication: string,
  { members, isCurrent }: KnownMembers,
  tables: readonly Table[],
  partitionsAsRoot: boolean,
  isNamed: (table: TableShape) => boolean,
  warn: (reason: string | null) => void,
): Promise<readonly Table[]> {
  const own = await client.query<PublicationRow>(publicationQuery, [publication]);
  const facts = own.rows[0];
  const identifier = escapeIdentifier(publication);
  const warnings: string[] = [];
  if (!facts) {
    throw new MillraceError(
      "publication_missing",
      `Publication ${publication} does not exist. Make it: CREATE PUBLICATION ${identifier} FOR TABLE …;`,
    );
  }
  if (facts.via_root !== partitionsAsRoot) {
    throw mismatch(
      `Publication ${publication} has publish_via_partition_root = ${facts.via_root}, and the connector has ` +
        `partitions_as_root ${partitionsAsRoot}: make them the same.`,
    );
  }
  if (facts.left_out !== "") {
    warnings.push(
      `Publication ${publication} leaves out ${facts.left_out}: these are not carried. If they should be: ` +
        `ALTER PUBLICATION ${identifier} SET (publish = 'insert, update, delete, truncate');`,
    );
  }
  const absent = tables.filter(({ relation }) => !members.has(qualifiedName(relation)));
  if (isCurrent) requireNamed(publication, absent.filter(isNamed));
  if (absent.length > 0)
    warnings.push(
      unpublishedWarning(
        publication,
        absent.map(({ relation }) => relation),
      ),
    );
  warn(warnings.length > 0 ? warnings.join(" ") : null);
  const published = tables.filter((table) => !absent.includes(table));
  if (isCurrent) for (const table of published) requireWhole(publication, table, members);
  return published.map((table) => {
    const isListed = members.get(qualifiedName(table.relation))?.is_listed === true;
    return {
      ...table,
      coverage: { excluded: table.coverage?.excluded ?? [], isListed, isUnpublished: false },
    };
  });
}

function requireNamed(publication: string, absent: readonly TableShape[]): void {
  if (absent.length === 0) return;
  const list = absent.map(({ relation }) => sqlName(relation)).join(", ");
  const sql = `ALTER PUBLICATION ${escapeIdentifier(publication)} ADD TABLE ${list}`;
  throw mismatch(`The catalog includes tables that publication ${publication} does not have: ${sql};`, [sql]);
}

/** A row filter or a column list would apply to changes, but not to the copy. */
function requireWhole(publication: string, table: TableShape, members: PublicationMembers): void {
  const name = qualifiedName(table.relation);
  const member = members.get(name);
  if (member?.has_row_filter) {
    throw mismatch(`Publication ${publication} filters the rows of ${name}: row filters are not supported.`);
  }
  const columns = member?.columns;
  // Columns that the source adds itself are in no publication.
  const stored = table.relation.columns.filter(({ number }) => number > 0);
  const unpublished = stored.filter((column) => columns && !columns.includes(column.name));
  if (unpublished.length === 0) return;
  throw mismatch(
    `Publication ${publication} leaves out columns of ${name}: exclude them in the connector's catalog as well ` +
      `(${unpublished.map((column) => column.name).join(", ")}).`,
  );
}

function mismatch(text: string, commands: readonly string[] = []): MillraceError {
  return new MillraceError("publication_mismatch", text, { commands });
}
