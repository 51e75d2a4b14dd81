// Reads what is published, with a fingerprint of each table's membership that changes when the membership may have been
// interrupted. The changes made during an interruption were not sent, and nothing in the stream says so.
// https://www.postgresql.org/docs/current/catalog-pg-publication-rel.html

import type { Client } from "pg";
import { serverVersion } from "../../../connection/server-version.ts";

export interface PublicationState {
  readonly name: string;
  readonly oid: number;
  /** `insert update delete truncate`, as far as published. */
  readonly operations: string;
  readonly viaRoot: boolean;
  /** It publishes stored generated columns: PostgreSQL 18. */
  readonly generated: boolean;
}

export interface Published {
  readonly publications: readonly PublicationState[];
  /** Fingerprints by the OID of a table, or of one of its partitions. */
  readonly memberships: ReadonlyMap<number, string>;
}

/** Lower OIDs are the server's own objects. */
const firstUserOid = 16_384;
/** Separates the storage in a fingerprint: the OID of the TOAST table, 0 for none, and the file. */
const storageSeparator = " in ";
/** Stands before each link to a partition in a fingerprint. */
const linkMark = "@";

const publicationsQuery = `
select pubname as name, oid::int8::float8 as oid, pubviaroot as "viaRoot",
  coalesce(to_jsonb(pg_publication) ->> 'pubgencols' = 's', false) as generated, concat_ws(' ', case when pubinsert then 'insert' end,
  case when pubupdate then 'update' end, case when pubdelete then 'delete' end,
  case when pubtruncate then 'truncate' end) as operations
from pg_publication where pubname = any ($1::text[]) order by pubname`;

/**
 * The OID of what makes a table a member, and the xmin of the publication's own row. That row is written whenever an
 * option is set, even for a moment, and not when members come or go.
 */
const tableMembers = `
select r.oid::text || '/' || p.xmin::text as membership, r.prrelid as relid, true as is_listed, '' as links
from pg_publication p
join pg_publication_rel r on r.prpubid = p.oid
where p.pubname = any ($1::text[])`;

/**
 * A table may leave the schema for a while. That rewrites the catalog row of its primary key; without one, the row of
 * its row type, which a rename rewrites too.
 */
const schemaMembers = `
union all
select 'schema ' || n.oid::text || ' ' || coalesce(key.xmin, own.xmin)::text || '/' || p.xmin::text, c.oid, false, ''
from pg_publication p
join pg_publication_namespace n on n.pnpubid = p.oid
join pg_class c on c.relnamespace = n.pnnspid and c.relkind in ('r', 'p') and c.relpersistence = 'p'
left join pg_constraint key on key.conrelid = c.oid and key.contype = 'p'
left join pg_type own on own.oid = c.reltype
where p.pubname = any ($1::text[])`;

/** Of all tables each partition is a member by itself. */
const allMembers = `
select 'all ' || p.oid::text || '/' || p.xmin::text, c.oid, false, ''
from pg_publication p cross join pg_class c
where p.pubname = any ($1::text[]) and p.puballtables and c.relkind in ('r', 'p') and c.relpersistence = 'p'
  and c.oid >= ${firstUserOid}`;

/**
 * A partition that is no member by itself is one as long as it is attached: the xmin of each link up to the member is
 * of the transaction that attached it.
 *
 * A table that no publication lists by itself can be made unlogged and logged again. Each of both gives it other files,
 * and another TOAST table if it has one; TRUNCATE and VACUUM FULL keep the TOAST table.
 */
const membershipsQuery = (members: string) => `
with recursive member as (
  ${members}
  union all
  select member.membership, i.inhrelid, false, member.links || '${linkMark}' || i.xmin::text
  from member
  join pg_inherits i on i.inhparent = member.relid and not i.inhdetachpending
  join pg_class c on c.oid = i.inhrelid and c.relispartition
)
select m.relid::int8::float8 as id, coalesce(
      string_agg(m.membership, ' ' order by m.membership) filter (where m.links = ''),
      string_agg(m.membership || m.links, ' ' order by m.membership, m.links))
    || case when bool_or(m.is_listed) then '' else '${storageSeparator}' || c.reltoastrelid::text || ' ' || c.relfilenode::text end as membership
from (select * from member union all ${allMembers}) m join pg_class c on c.oid = m.relid
group by m.relid, c.reltoastrelid, c.relfilenode order by m.relid`;

/** Publications of whole schemas exist since version 15. */
const schemasSince = 150_000;

export async function readPublished(client: Client, names: readonly string[]): Promise<Published> {
  const hasSchemas = (await serverVersion(client)) >= schemasSince;
  const members = hasSchemas ? tableMembers + schemaMembers : tableMembers;
  const publications = await client.query<PublicationState>(publicationsQuery, [names]);
  const { rows } = await client.query<{ id: number; membership: string }>(membershipsQuery(members), [names]);
  return {
    publications: publications.rows,
    memberships: new Map(rows.map(({ id, membership }) => [id, membership])),
  };
}

/** Equal for two reads when nothing was published differently in between. */
export function publishedFingerprint({ publications, memberships }: Published): string {
  return Bun.hash(JSON.stringify([publications, [...memberships]])).toString(16);
}

/** How a table's membership was interrupted, or may have been. */
export type Interruption = "altered" | "detached" | "removed" | "rewritten";

/** `recorded`: the table's membership when its changes were known to be published. Null: no interruption. */
export function interruptionSince(
  recorded: string | undefined,
  membership: string | undefined,
): Interruption | null {
  if (recorded === undefined || recorded === membership) return null;
  if (membership === undefined) return "removed";
  const [before = "", storageBefore] = recorded.split(storageSeparator);
  const [withLinks = "", storageNow] = membership.split(storageSeparator);
  // Records of earlier versions have no links.
  const now = before.includes(linkMark) ? withLinks : withoutLinks(withLinks);
  // Such a record of a table that is a member by itself has the memberships of tables above it, too.
  const had = before.split(" ");
  const goesOn = !withLinks.includes(linkMark) && now.split(" ").every((member) => had.includes(member));
  if (before !== now && !goesOn) {
    if (membersOf(before) === membersOf(now)) return "altered";
    return withoutLinks(before) === withoutLinks(now) ? "detached" : "removed";
  }
  return isSameStorage(storageBefore, storageNow) ? null : "rewritten";
}

/**
 * Whether two fingerprints describe the same membership. `setsOptions`: we have set the publication's options in
 * between.
 */
export function isSameMembership(
  before: string | undefined,
  after: string | undefined,
  setsOptions: boolean,
): boolean {
  if (!setsOptions || before === undefined || after === undefined) return before === after;
  return membersOf(before) === membersOf(after);
}

function membersOf(membership: string): string {
  return membership.replaceAll(/\/\d+/g, "");
}

function withoutLinks(membership: string): string {
  return membership.replaceAll(new RegExp(`${linkMark}\\d+`, "g"), "");
}

/** The same file: the table was not rewritten. The same TOAST table: it was not rewritten by ALTER TABLE. */
function isSameStorage(before = "", now = ""): boolean {
  const [largeBefore, fileBefore] = before.split(" ");
  const [large, file] = now.split(" ");
  return fileBefore === file || (large !== "0" && largeBefore === large);
}
