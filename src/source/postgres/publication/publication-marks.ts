// What of the source's tables is published, with marks that change when a membership may have been broken off and begun anew:
// what was changed in between was not carried, and nothing in the stream tells so.
// https://www.postgresql.org/docs/current/catalog-pg-publication-rel.html

import type { Client } from "pg";
import { serverVersion } from "../../../connection/server-version.ts";

export interface PublicationState {
  readonly name: string;
  readonly oid: number;
  /** `insert update delete truncate`, as far as published. */
  readonly operations: string;
  readonly viaRoot: boolean;
}

export interface Published {
  readonly publications: readonly PublicationState[];
  /** By the OID of a table, or of a partition of it. */
  readonly marks: ReadonlyMap<number, string>;
}

/** Those below are the server's own. */
const firstUserOid = 16_384;
/** Stands before a table's OID for large values, 0 for none, and its file. */
const storageSign = " in ";

const publicationsQuery = `
select pubname as name, oid::int8::float8 as oid, pubviaroot as "viaRoot", concat_ws(' ', case when pubinsert then 'insert' end,
  case when pubupdate then 'update' end, case when pubdelete then 'delete' end,
  case when pubtruncate then 'truncate' end) as operations
from pg_publication where pubname = any ($1::text[]) order by pubname`;

/**
 * The OIDs of what makes tables members, and what wrote the publication's own row: it is written whenever an option is set,
 * also for a while only, and not when members come or go.
 */
const tableMembers = `
select r.oid || '/' || p.xmin as mark, member.relid, member.relid = r.prrelid as is_listed
from pg_publication p
join pg_publication_rel r on r.prpubid = p.oid
cross join lateral (
  select r.prrelid as relid union select relid::oid from pg_partition_tree(r.prrelid)
) member
where p.pubname = any ($1::text[])
union all
select 'all ' || p.oid || '/' || p.xmin, c.oid, false
from pg_publication p cross join pg_class c
where p.pubname = any ($1::text[]) and p.puballtables and c.relkind in ('r', 'p') and c.relpersistence = 'p'
  and c.oid >= ${firstUserOid}`;

/**
 * A table may leave the schema for a while. That writes the entry of its primary key; where there is none, that of its row type, which
 * a new name writes as well.
 */
const schemaMembers = `
union all
select 'schema ' || n.oid || ' ' || coalesce(key.xmin, own.xmin) || '/' || p.xmin, c.oid, false
from pg_publication p
join pg_publication_namespace n on n.pnpubid = p.oid
join pg_class c on c.relnamespace = n.pnnspid and c.relkind in ('r', 'p') and c.relpersistence = 'p'
left join pg_constraint key on key.conrelid = c.oid and key.contype = 'p'
left join pg_type own on own.oid = c.reltype
where p.pubname = any ($1::text[])`;

/**
 * A table that no publication lists by itself can be made unlogged, and logged again. Either gives it other files, and another
 * table for its large values if it has one, which TRUNCATE and VACUUM FULL leave.
 */
const marksQuery = (members: string) => `
select m.relid::int8::float8 as id, string_agg(m.mark, ' ' order by m.mark)
  || case when bool_or(m.is_listed) then '' else '${storageSign}' || c.reltoastrelid || ' ' || c.relfilenode end as mark
from (${members}) m join pg_class c on c.oid = m.relid
group by m.relid, c.reltoastrelid, c.relfilenode order by m.relid`;

/** Publications of whole schemas came with 15. */
const schemasSince = 150_000;

export async function readPublished(client: Client, names: readonly string[]): Promise<Published> {
  const hasSchemas = (await serverVersion(client)) >= schemasSince;
  const members = hasSchemas ? tableMembers + schemaMembers : tableMembers;
  const publications = await client.query<PublicationState>(publicationsQuery, [names]);
  const marks = await client.query<{ id: number; mark: string }>(marksQuery(members), [names]);
  return {
    publications: publications.rows,
    marks: new Map(marks.rows.map(({ id, mark }) => [id, mark])),
  };
}

/** Two of them are equal when nothing was published otherwise meanwhile. */
export function printPublished({ publications, marks }: Published): string {
  return Bun.hash(JSON.stringify([publications, [...marks]])).toString(16);
}

/** How a table's membership has been broken off since it was noted, or may have been. */
export type Interruption = "altered" | "removed" | "rewritten";

/** `noted`: its mark when its changes were seen to come. Null: it has gone on. */
export function interruptionSince(noted: string | undefined, mark: string | undefined): Interruption | null {
  if (noted === undefined || noted === mark) return null;
  if (mark === undefined) return "removed";
  const [before = "", storageBefore] = noted.split(storageSign);
  const [now = "", storageNow] = mark.split(storageSign);
  if (before !== now) return membersOf(before) === membersOf(now) ? "altered" : "removed";
  return isSameStorage(storageBefore, storageNow) ? null : "rewritten";
}

/** Whether two marks of a table tell of the same membership. `setsOptions`: those of the publication were set in between, by us. */
export function isSameMembership(
  before: string | undefined,
  after: string | undefined,
  setsOptions: boolean,
): boolean {
  if (!setsOptions || before === undefined || after === undefined) return before === after;
  return membersOf(before) === membersOf(after);
}

function membersOf(mark: string): string {
  return mark.replaceAll(/\/\d+/g, "");
}

/** One of both is the same: with the file, nothing was rewritten; with the other, not by ALTER TABLE. */
function isSameStorage(before = "", now = ""): boolean {
  const [largeBefore, fileBefore] = before.split(" ");
  const [large, file] = now.split(" ");
  return fileBefore === file || (large !== "0" && largeBefore === large);
}
