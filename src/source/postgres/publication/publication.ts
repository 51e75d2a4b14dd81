// The connector's own publications, which decide what the server sends: one for tables whose rows can be identified,
// and one that publishes only inserts of tables without a replica identity. Publishing updates of such a table would
// make the application's UPDATE and DELETE fail.
// https://www.postgresql.org/docs/current/logical-replication-publication.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { isIdentified } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { serverVersion } from "../../../connection/server-version.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type BlockingLock, readLockHolder } from "../checks/lock-holder.ts";
import { describePublicationDenial } from "../checks/privileges.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";
import { columnListOf, firstWithColumnLists } from "./column-list.ts";
import type { PublicationState } from "./publication-membership.ts";

/** Names of the connector's own publications. No connector id can contain the `$` of the second name. */
export function ownPublications(base: string): { identified: string; appendOnly: string } {
  return { identified: base, appendOnly: `${base}$append` };
}

/** A table in a publication. */
interface Member {
  readonly publication: string;
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  /** Null: the whole table is published. */
  readonly columns: readonly string[] | null;
  /** Somebody gave it a row filter: the service itself never does. */
  readonly isFiltered: boolean;
}

/**
 * `tables`, with the coverage that the connector's own publications give them now, and the column lists that they are
 * to have.
 */
export async function withOwnCoverage(
  client: Client,
  base: string,
  tables: readonly SourceTable[],
): Promise<readonly SourceTable[]> {
  const hasLists = (await serverVersion(client)) >= firstWithColumnLists;
  const members = await readMembers(client, base);
  const byTable = new Map(members.map((member) => [member.id, member]));
  const { appendOnly } = ownPublications(base);
  return tables.map((table) => {
    const member = byTable.get(table.relation.id);
    const isWhole = table.facts.every(({ name }) => member?.columns?.includes(name) ?? true);
    const lacksUpdates = sendsUpdates(table) && member?.publication === appendOnly;
    const coverage = {
      excluded: table.coverage?.excluded ?? [],
      isListed: hasLists && columnListOf(table) !== null,
      isUnpublished: member === undefined || member.isFiltered || !isWhole || lacksUpdates,
    };
    return { ...table, coverage };
  });
}

/**
 * Tables are locked one by one. A wait for one of them that reaches deadlock_timeout could abort the transaction of
 * somebody who waits for another one. So we wait for half of it at most, and no longer than the stream may stand still;
 * the connection's own lock_timeout may be shorter.
 */
const boundLockWaits = `
select set_config('lock_timeout', least(case when $1 then 2 * d.setting::int else least(500, d.setting::int / 2) end,
  nullif(l.setting::int, 0))::text, true)
from pg_settings d, pg_settings l where d.name = 'deadlock_timeout' and l.name = 'lock_timeout'`;

/** Lock modes that conflict with publishing a table. */
const lockModes = [
  ...["ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock"],
  "AccessExclusiveLock",
];

/**
 * Runs `plan`, then `check`, in one transaction. Throws `table_locked` when one of the tables is locked; nothing is
 * altered then. Throws `table_changed` when somebody else alters the publications or a table meanwhile.
 */
export async function alterPublications<Result>(
  client: Client,
  plan: readonly Alteration[],
  tables: readonly SourceTable[],
  viaRoot: boolean,
  check: () => Promise<Result>,
): Promise<Result> {
  const attempt = (isPatient: boolean) => alterNow(client, plan, tables, viaRoot, check, isPatient);
  return (await attempt(false)) ?? (await attempt(true))!;
}

/**
 * `isPatient`: waits long enough for an autovacuum to yield. Null: an autovacuum holds the lock, so a patient attempt
 * is worth it.
 */
async function alterNow<Result>(
  client: Client,
  plan: readonly Alteration[],
  tables: readonly SourceTable[],
  viaRoot: boolean,
  check: () => Promise<Result>,
  isPatient: boolean,
): Promise<Result | null> {
  // In one transaction: a table that moves to the other publication, or gets another list, misses no change.
  try {
    await client.query("begin");
    await client.query(boundLockWaits, [isPatient]);
    for (const { sql } of plan) await client.query(sql);
    const result = await check();
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    if (error instanceof MillraceError) throw error;
    if (sqlStateOf(error) === sqlState.lockNotAvailable) {
      const ids = tables.map(({ relation }) => relation.id);
      const holder = await readLockHolder(client, lockModes, ids);
      if (holder?.isAutovacuum && !isPatient) return null;
      throw tableLocked(holder, error);
    }
    if (alteredStates.has(sqlStateOf(error) ?? "")) {
      throw new MillraceError(
        "table_changed",
        "A table was altered or dropped while it was being published, or its publication was.",
        { cause: error },
      );
    }
    const relations = tables.map(({ relation }) => relation);
    throw await describePublicationDenial(client, error, relations, viaRoot);
  }
}

function tableLocked(holder: BlockingLock | null, cause: unknown): MillraceError {
  const which = holder ? `Table ${holder.table}` : "A table";
  const why = holder ? `: ${holder.who}. To end the wait: ${holder.terminateSql}` : ".";
  const text = `${which} is locked, so that it cannot be published yet${why}`;
  return new MillraceError("table_locked", text, { cause });
}

/** A table, column, member of a publication, or schema is gone or renamed, or exists already. */
const alteredStates: ReadonlySet<string> = new Set([
  sqlState.duplicateObject,
  sqlState.undefinedTable,
  sqlState.undefinedColumn,
  sqlState.undefinedObject,
  sqlState.invalidSchemaName,
]);

/** @param kept is not dropped, whatever its name */
export async function dropOwnPublications(client: Client, base: string, kept: string | null): Promise<void> {
  const { identified, appendOnly } = ownPublications(base);
  const dropped = [identified, appendOnly].filter((name) => name !== kept);
  await client.query(
    `drop publication if exists ${dropped.map((name) => escapeIdentifier(name)).join(", ")}`,
  );
}

/** The catalog has column lists as numbers. It has no such columns before PostgreSQL 15, hence to_jsonb. */
const membersQuery = `
select p.pubname as publication, c.oid::int8::text as id, n.nspname as schema, c.relname as name, to_jsonb(r) ->> 'prqual' is not null as "isFiltered",
  case when jsonb_typeof(to_jsonb(r) -> 'prattrs') = 'array' then (
    select coalesce(json_agg(a.attname order by a.attnum), '[]')
    from jsonb_array_elements_text(to_jsonb(r) -> 'prattrs') as listed(attnum)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = listed.attnum::int2
  ) end as columns
from pg_publication_rel r
join pg_publication p on p.oid = r.prpubid
join pg_class c on c.oid = r.prrelid
join pg_namespace n on n.oid = c.relnamespace
where p.pubname = any ($1::text[])
order by p.pubname`;

/** Members of the connector's own publications. */
async function readMembers(client: Client, base: string): Promise<readonly Member[]> {
  const names = Object.values(ownPublications(base));
  const { rows } = await client.query<Member & { id: string }>(membersQuery, [names]);
  return rows.map((row) => ({ ...row, id: Number(row.id) }));
}

/** A statement that alters a publication. */
export interface Alteration {
  readonly sql: string;
  /** OIDs of the tables whose membership it changes. */
  readonly tables: readonly number[];
  readonly setsOptions: boolean;
}

type Options = Omit<PublicationState, "oid">;

/** Whether the table belongs to the publication of tables whose rows can be identified. */
function sendsUpdates({ relation, insertsOnly }: SourceTable): boolean {
  return isIdentified(relation) && !insertsOnly;
}

/**
 * The statements after which the connector's own publications contain exactly `tables`, with their column lists.
 * `present`: those that exist.
 */
export async function planPublications(
  client: Client,
  base: string,
  present: readonly PublicationState[],
  tables: readonly SourceTable[],
  viaRoot: boolean,
): Promise<readonly Alteration[]> {
  const { identified, appendOnly } = ownPublications(base);
  const members = await readMembers(client, base);
  const insertsOnly = tables.filter((table) => !sendsUpdates(table));
  const wanted = [
    { name: identified, operations: "insert update delete truncate", tables: tables.filter(sendsUpdates) },
    { name: appendOnly, operations: "insert truncate", tables: insertsOnly },
  ];
  return wanted.flatMap(({ tables: listed, ...options }) =>
    alterationsOf(
      { ...options, viaRoot, generated: listed.some(({ sentGenerated }) => sentGenerated.length > 0) },
      listed,
      present.find(({ name }) => name === options.name),
      members.filter(({ publication }) => publication === options.name),
    ),
  );
}

/** `present`: the publication as it is; undefined: it does not exist. */
function alterationsOf(
  wanted: Options,
  tables: readonly SourceTable[],
  present: Options | undefined,
  members: readonly Member[],
): readonly Alteration[] {
  const entries = new Map(
    tables.map((table) => [memberSql(table.relation, listOf(table)), table.relation.id]),
  );
  const name = escapeIdentifier(wanted.name);
  const operations = escapeLiteral(wanted.operations.replaceAll(" ", ", "));
  const generated = wanted.generated ? ", publish_generated_columns = stored" : "";
  const options = `publish = ${operations}, publish_via_partition_root = ${wanted.viaRoot}${generated}`;
  if (!present) {
    const list = entries.size > 0 ? `for table ${[...entries.keys()].join(", ")}` : "";
    const sql = `create publication ${name} ${list} with (${options})`;
    return [{ sql, tables: [...entries.values()], setsOptions: true }];
  }
  const fits = (member: Member) => !member.isFiltered && entries.has(memberSql(member, member.columns));
  const existing = new Set(members.filter(fits).map((member) => memberSql(member, member.columns)));
  const surplus = members.filter((member) => !fits(member));
  const missing = [...entries].filter(([sql]) => !existing.has(sql));
  const alter = `alter publication ${name}`;
  const change = (action: string, listed: readonly (readonly [sql: string, id: number])[]) =>
    listed.length === 0
      ? []
      : [
          {
            sql: `${alter} ${action} table ${listed.map(([sql]) => sql).join(", ")}`,
            tables: listed.map(([, id]) => id),
            setsOptions: false,
          },
        ];
  return [
    // Before the options: some options do not allow column lists.
    ...change(
      "drop",
      surplus.map((member) => [`only ${sqlName(member)}`, member.id] as const),
    ),
    // Only where needed: it writes the publication's row, which looks like an alteration by somebody else. If the
    // process died before that was recorded, all tables would be copied again.
    ...(wanted.operations === present.operations &&
    wanted.viaRoot === present.viaRoot &&
    (present.generated || !wanted.generated)
      ? []
      : [{ sql: `${alter} set (${options})`, tables: [], setsOptions: true }]),
    ...change("add", missing),
  ];
}

function listOf(table: SourceTable): readonly string[] | null {
  return table.coverage?.isListed ? table.facts.map(({ name }) => name) : null;
}

/**
 * A table in the syntax of CREATE PUBLICATION. ONLY leaves out its inheritance children: each is a table of its own.
 */
function memberSql(
  table: { readonly schema: string; readonly name: string },
  columns: readonly string[] | null,
): string {
  const only = `only ${sqlName(table)}`;
  return columns === null ? only : `${only} (${columns.map(escapeIdentifier).join(", ")})`;
}
