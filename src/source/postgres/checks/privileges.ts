// Describes what a role lacks at the source, with the SQL that its owner or an administrator has to run.
// https://www.postgresql.org/docs/current/logical-replication-security.html

import { type Client, escapeIdentifier } from "pg";
import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { orExclude } from "../publication/unpublished-wording.ts";

/**
 * The names of more tables than this make no sentence; then the statement is for all tables, which takes a superuser.
 */
const maxTables = 100;

/** `error`; if the role may not open a replication connection, an error with the SQL. */
export function describeReplicationDenial(error: unknown, user: string): unknown {
  if (sqlStateOf(error) !== sqlState.insufficientPrivilege) return error;
  const sql = `ALTER ROLE ${escapeIdentifier(user)} REPLICATION`;
  return denied(
    `Role ${user} may not replicate: ${sql}; (on a managed server, GRANT its replication role instead).`,
    [sql],
    error,
  );
}

/** An error with the SQL if the role may not read `table`; null: `error` means something else. */
export function describeReadDenial(error: unknown, user: string, table: TableName): MillraceError | null {
  if (sqlStateOf(error) !== sqlState.insufficientPrivilege) return null;
  const role = escapeIdentifier(user);
  if (/row-level security/.test(String(error))) {
    const sql = `ALTER ROLE ${role} BYPASSRLS`;
    return denied(
      `A row-level security policy hides rows of ${sqlName(table)} from role ${user}: ${sql};`,
      [sql],
      error,
    );
  }
  const grants = [
    `GRANT USAGE ON SCHEMA ${escapeIdentifier(table.schema)} TO ${role}`,
    `GRANT SELECT ON ${sqlName(table)} TO ${role}`,
  ];
  return denied(`Role ${user} may not read ${sqlName(table)}: ${grants.join("; ")};`, grants, error);
}

interface PublicationRights {
  readonly user: string;
  readonly database: string;
  readonly mayCreate: boolean;
}

const rightsQuery = `
select current_user as "user", current_database() as database,
  has_database_privilege(current_database(), 'CREATE') as "mayCreate"`;

/** A table that the role may not publish. */
export interface UnpublishableTable extends PublishableTable {
  readonly owner: string;
  /** What allows it. */
  readonly sql: string;
}

/** To look a table up, a publication needs its schema as well. A privilege is null of what was dropped meanwhile. */
const unpublishableQuery = `
select c.oid::int8::float8 as id, n.nspname as schema, c.relname as name, pg_get_userbyid(c.relowner) as owner,
  concat_ws(' ', case when not pg_has_role(c.relowner, 'USAGE') then format('ALTER TABLE %I.%I OWNER TO %I;', n.nspname, c.relname, current_user) end,
    case when not has_schema_privilege(n.oid, 'USAGE') then format('GRANT USAGE ON SCHEMA %I TO %I;', n.nspname, current_user) end) as sql
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any ($1::oid[]) and not (pg_has_role(c.relowner, 'USAGE') and has_schema_privilege(n.oid, 'USAGE'))
order by n.nspname, c.relname`;

/** Those of the tables with these OIDs that the role may not publish. */
export async function readUnpublishable(
  client: Client,
  ids: readonly number[],
): Promise<readonly UnpublishableTable[]> {
  if (ids.length === 0) return [];
  return (await client.query<UnpublishableTable>(unpublishableQuery, [ids])).rows;
}

interface TableName {
  readonly schema: string;
  readonly name: string;
}

interface PublishableTable extends TableName {
  readonly id: number;
}

/**
 * Why creating or altering a publication was refused. Only a table's owner can publish it; for a role that should own
 * nothing, the owner creates the publication. `client` must be outside a transaction.
 */
export async function describePublicationDenial(
  client: Client,
  error: unknown,
  tables: readonly PublishableTable[],
  viaRoot: boolean,
): Promise<MillraceError> {
  if (sqlStateOf(error) === sqlState.readOnlyTransaction) {
    const sql = ownersPublication(tables, viaRoot);
    return new MillraceError(
      "publication_missing",
      `The source is a standby, where no publication can be made. Make one at its primary, and name it in publication_name: ${sql};`,
      { cause: error, commands: [sql] },
    );
  }
  if (sqlStateOf(error) !== sqlState.insufficientPrivilege) return describePostgresError(error, "source");
  const ids = tables.map(({ id }) => id);
  const unpublishable = await readUnpublishable(client, ids);
  const { rows } = await client.query<PublicationRights>(rightsQuery);
  const rights = rows[0];
  if (!rights) throw new Error("a query without FROM gave no row");
  const { text, commands } = publicationRemedy(rights, unpublishable, tables, viaRoot);
  return denied(text, commands, error);
}

function publicationRemedy(
  rights: PublicationRights,
  unpublishable: readonly UnpublishableTable[],
  tables: readonly PublishableTable[],
  viaRoot: boolean,
): { readonly text: string; readonly commands: readonly string[] } {
  const { user, database } = rights;
  if (unpublishable.length === 0 && !rights.mayCreate) {
    const sql = `GRANT CREATE ON DATABASE ${escapeIdentifier(database)} TO ${escapeIdentifier(user)}`;
    return { text: `Role ${user} may not make a publication in this database: ${sql};`, commands: [sql] };
  }
  if (unpublishable.length === 0) {
    const text =
      `The connector's publication belongs to another role than ${user}: log in as that role, or let it run ` +
      `DROP PUBLICATION, and begin anew with the command ReInitialize.`;
    return { text, commands: [] };
  }
  const sql = ownersPublication(tables, viaRoot);
  const text =
    `Role ${user} may not publish every selected table: only its owner can, with USAGE on the schema. Let the owner ` +
    `(${[...new Set(unpublishable.map(({ owner }) => owner))].join(", ")}) make a publication, and name it in publication_name: ` +
    `${sql}; ${orExclude(unpublishable)}`;
  return { text, commands: [sql] };
}

/** CREATE PUBLICATION for people to run, without a semicolon. `viaRoot`: publish partitioned tables as one. */
export function createPublicationSql(
  name: string,
  tables: readonly TableName[] | "all",
  viaRoot: boolean,
): string {
  const list = tables === "all" ? "ALL TABLES" : `TABLE ${tables.map(sqlName).join(", ")}`;
  const members = tables.length === 0 ? "" : ` FOR ${list}`;
  const options = viaRoot ? " WITH (publish_via_partition_root = true)" : "";
  return `CREATE PUBLICATION ${escapeIdentifier(name)}${members}${options}`;
}

/** The publication that an owner creates for a role that owns nothing. */
function ownersPublication(tables: readonly TableName[], viaRoot: boolean): string {
  return createPublicationSql("millrace", tables.length <= maxTables ? tables : "all", viaRoot);
}

function denied(text: string, commands: readonly string[], cause: unknown): MillraceError {
  return new MillraceError("source_permission_denied", text, { cause, commands });
}
