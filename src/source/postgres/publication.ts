// The publications that decide what the server sends. The service makes its own unless the connector names one:
// one for tables whose rows can be identified, and one that carries only inserts for those without a replica identity,
// because publishing updates of such a table would make the application's own UPDATE and DELETE fail.
// https://www.postgresql.org/docs/current/logical-replication-publication.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { isIdentified } from "../../change/relation.ts";
import { sqlStateOf } from "../../connection/postgres-failure.ts";
import { sqlName } from "../../connection/sql-name.ts";
import { sqlState } from "../../connection/sql-state.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { columnListOf, firstWithColumnLists } from "./column-list.ts";
import { type HeldLock, readLockHolder } from "./lock-holder.ts";
import { describePublicationDenial } from "./privileges.ts";
import type { SourceTable } from "./table-shapes.ts";

/** Names of the connector's own publications. No connector id can contain the `$` of the second. */
export function ownPublications(base: string): { identified: string; appendOnly: string } {
  return { identified: base, appendOnly: `${base}$append` };
}

/** A table in a publication. */
interface Member {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  /** Null: the table is published whole. */
  readonly columns: readonly string[] | null;
  /** Somebody has given it a row filter, which the service's own never have. */
  readonly isFiltered: boolean;
}

/** What the connector's own publications hold at the moment, by the tables' OIDs. */
async function readOwnMembers(client: Client, base: string): Promise<ReadonlyMap<number, Member>> {
  const { identified, appendOnly } = ownPublications(base);
  const members = [...(await readMembers(client, identified)), ...(await readMembers(client, appendOnly))];
  return new Map(members.map((member) => [member.id, member]));
}

/** `tables` with what the connector's own publications say of them by now, and are to list from here on. */
export async function withOwnCoverage(
  client: Client,
  base: string,
  tables: readonly SourceTable[],
): Promise<readonly SourceTable[]> {
  const { rows } = await client.query<{ number: number }>(
    "select current_setting('server_version_num')::int4 as number",
  );
  const hasLists = (rows[0]?.number ?? 0) >= firstWithColumnLists;
  const members = await readOwnMembers(client, base);
  return tables.map((table) => {
    const member = members.get(table.relation.id);
    const isWhole = table.facts.every(({ name }) => member?.columns?.includes(name) ?? true);
    const coverage = {
      excluded: table.coverage?.excluded ?? [],
      isListed: hasLists && columnListOf(table) !== null,
      isUnpublished: member === undefined || member.isFiltered || !isWhole,
    };
    return { ...table, coverage };
  });
}

/**
 * Tables are locked one after the other. A wait for one that lasts as long as the server takes to look for deadlocks could have
 * somebody's transaction ended who waits for another: half of that, but no longer than the stream may stand. A bound that the
 * connection has may be shorter.
 */
const boundLockWaits = `
select set_config('lock_timeout', least(case when $1 then 2 * d.setting::int else least(500, d.setting::int / 2) end,
  nullif(l.setting::int, 0))::text, true)
from pg_settings d, pg_settings l where d.name = 'deadlock_timeout' and l.name = 'lock_timeout'`;

/** They conflict with what is taken for a publication. */
const lockModes = [
  ...["ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock"],
  "AccessExclusiveLock",
];

/**
 * Makes the connector's own publications hold exactly `tables`, with the columns that are to be listed. Throws `table_locked` when
 * somebody has locked one of them: then nothing is altered.
 */
export async function reconcilePublications(
  client: Client,
  base: string,
  tables: readonly SourceTable[],
  viaRoot: boolean,
): Promise<void> {
  const isMadeWayFor = await reconcileNow(client, base, tables, viaRoot, false);
  if (isMadeWayFor) await reconcileNow(client, base, tables, viaRoot, true);
}

/** `isPatient`: an autovacuum makes way for who waits for long. True: it is to be tried so. */
async function reconcileNow(
  client: Client,
  base: string,
  tables: readonly SourceTable[],
  viaRoot: boolean,
  isPatient: boolean,
): Promise<boolean> {
  const names = ownPublications(base);
  const isWhole = ({ relation, insertsOnly }: SourceTable) => isIdentified(relation) && !insertsOnly;
  const identified = tables.filter(isWhole);
  const appendOnly = tables.filter((table) => !isWhole(table));
  // In one transaction: a table that moves from one to the other, or gets another list, is out of both for no change at all.
  try {
    await client.query("begin");
    await client.query(boundLockWaits, [isPatient]);
    await reconcile(client, names.identified, identified, "insert, update, delete, truncate", viaRoot);
    await reconcile(client, names.appendOnly, appendOnly, "insert, truncate", viaRoot);
    await client.query("commit");
    return false;
  } catch (error) {
    await client.query("rollback");
    if (sqlStateOf(error) === sqlState.lockNotAvailable) {
      const ids = tables.map(({ relation }) => relation.id);
      const holder = await readLockHolder(client, lockModes, ids);
      if (holder?.isAutovacuum && !isPatient) return true;
      throw tableLocked(holder, error);
    }
    if (alteredMeanwhile.has(sqlStateOf(error) ?? "")) {
      throw new MillraceError(
        "table_changed",
        "A table was altered or dropped while it was being published.",
        {
          cause: error,
        },
      );
    }
    const relations = tables.map(({ relation }) => relation);
    throw await describePublicationDenial(client, error, relations, viaRoot);
  }
}

function tableLocked(holder: HeldLock | null, cause: unknown): MillraceError {
  const which = holder ? `Table ${holder.table}` : "A table";
  const why = holder ? `: ${holder.who}. To end the wait: ${holder.end}` : ".";
  const text = `${which} is locked, so that it cannot be published yet${why}`;
  return new MillraceError("table_locked", text, { cause });
}

/** Table, column, member of a publication, or schema: it is not there, or no longer under its name. */
const alteredMeanwhile: ReadonlySet<string> = new Set([
  sqlState.undefinedTable,
  sqlState.undefinedColumn,
  sqlState.undefinedObject,
  sqlState.invalidSchemaName,
]);

export async function dropOwnPublications(client: Client, base: string): Promise<void> {
  const names = ownPublications(base);
  await client.query(
    `drop publication if exists ${escapeIdentifier(names.identified)}, ${escapeIdentifier(names.appendOnly)}`,
  );
}

/** Column lists as the catalog has them are numbers; to_jsonb, because there are no such columns before PostgreSQL 15. */
const membersQuery = `
select c.oid::int8::text as id, n.nspname as schema, c.relname as name, to_jsonb(r) ->> 'prqual' is not null as "isFiltered",
  case when jsonb_typeof(to_jsonb(r) -> 'prattrs') = 'array' then (
    select coalesce(json_agg(a.attname order by a.attnum), '[]')
    from jsonb_array_elements_text(to_jsonb(r) -> 'prattrs') as listed(attnum)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = listed.attnum::int2
  ) end as columns
from pg_publication_rel r
join pg_publication p on p.oid = r.prpubid
join pg_class c on c.oid = r.prrelid
join pg_namespace n on n.oid = c.relnamespace
where p.pubname = $1`;

async function readMembers(client: Client, publication: string): Promise<readonly Member[]> {
  const { rows } = await client.query<Member & { id: string }>(membersQuery, [publication]);
  return rows.map((row) => ({ ...row, id: Number(row.id) }));
}

const optionsQuery = `
select pubinsert and pubtruncate and pubupdate = $2::bool and pubdelete = $2::bool and pubviaroot = $3::bool as fits
from pg_publication where pubname = $1`;

async function reconcile(
  client: Client,
  name: string,
  tables: readonly SourceTable[],
  publish: string,
  viaRoot: boolean,
): Promise<void> {
  const wanted = new Map(tables.map((table) => [memberSql(table.relation, listOf(table)), table]));
  const options = `publish = ${escapeLiteral(publish)}, publish_via_partition_root = ${viaRoot}`;
  const { rows } = await client.query<{ fits: boolean }>(optionsQuery, [
    name,
    publish.includes("update"),
    viaRoot,
  ]);
  const [publication] = rows;
  if (!publication) {
    const list = wanted.size > 0 ? `for table ${[...wanted.keys()].join(", ")}` : "";
    await client.query(`create publication ${escapeIdentifier(name)} ${list} with (${options})`);
    return;
  }
  const members = await readMembers(client, name);
  const fits = (member: Member) => !member.isFiltered && wanted.has(memberSql(member, member.columns));
  const existing = new Set(members.filter(fits).map((member) => memberSql(member, member.columns)));
  const surplus = members.filter((member) => !fits(member)).map((member) => `only ${sqlName(member)}`);
  const lacking = [...wanted.keys()].filter((sql) => !existing.has(sql));
  const alter = `alter publication ${escapeIdentifier(name)}`;
  // Before the options: a list does not go with every option.
  if (surplus.length > 0) await client.query(`${alter} drop table ${surplus.join(", ")}`);
  // Only where needed: it writes the publication's row, which tells that somebody altered it. A process that dies before that
  // is noted would copy all tables again.
  if (!publication.fits) await client.query(`${alter} set (${options})`);
  if (lacking.length > 0) await client.query(`${alter} add table ${lacking.join(", ")}`);
}

function listOf(table: SourceTable): readonly string[] | null {
  return table.coverage?.isListed ? table.facts.map(({ name }) => name) : null;
}

/** A table as CREATE PUBLICATION takes it. Without its heirs: each is a table of its own, and may be published by the other. */
function memberSql(
  table: { readonly schema: string; readonly name: string },
  columns: readonly string[] | null,
): string {
  const only = `only ${sqlName(table)}`;
  return columns === null ? only : `${only} (${columns.map(escapeIdentifier).join(", ")})`;
}
