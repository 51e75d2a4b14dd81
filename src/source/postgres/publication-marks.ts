// What of the source's tables is published, with marks that change when a membership is ended and begun anew: what was
// changed in between was not carried, and nothing in the stream tells so.
// https://www.postgresql.org/docs/current/catalog-pg-publication-rel.html

import type { Client } from "pg";

export interface PublicationState {
  readonly name: string;
  readonly oid: number;
  /** `insert update delete truncate`, as far as published. */
  readonly operations: string;
  readonly viaRoot: boolean;
}

export interface Published {
  readonly publications: readonly PublicationState[];
  /** By the OID of a table, or of a partition of it: the OIDs of what makes it a member. */
  readonly marks: ReadonlyMap<number, string>;
}

const publicationsQuery = `
select pubname as name, oid::int8::float8 as oid, pubviaroot as "viaRoot", concat_ws(' ', case when pubinsert then 'insert' end,
  case when pubupdate then 'update' end, case when pubdelete then 'delete' end,
  case when pubtruncate then 'truncate' end) as operations
from pg_publication where pubname = any ($1::text[]) order by pubname`;

const tableMembers = `
select r.oid::text as mark, member.relid
from pg_publication p
join pg_publication_rel r on r.prpubid = p.oid
cross join lateral (
  select r.prrelid as relid union select relid::oid from pg_partition_tree(r.prrelid)
) member
where p.pubname = any ($1::text[])
union all
select 'all ' || p.oid, c.oid
from pg_publication p cross join pg_class c
where p.pubname = any ($1::text[]) and p.puballtables and c.relkind in ('r', 'p') and c.relpersistence = 'p'`;

const schemaMembers = `
union all
select 'schema ' || n.oid, c.oid
from pg_publication p
join pg_publication_namespace n on n.pnpubid = p.oid
join pg_class c on c.relnamespace = n.pnnspid and c.relkind in ('r', 'p') and c.relpersistence = 'p'
where p.pubname = any ($1::text[])`;

const marksQuery = (members: string) => `
select relid::int8::float8 as id, string_agg(mark, ' ' order by mark) as mark from (${members}) m group by relid order by relid`;

/** Publications of whole schemas came with 15. */
const schemasSince = 150_000;

export async function readPublished(client: Client, names: readonly string[]): Promise<Published> {
  const version = await client.query<{ n: number }>(
    "select current_setting('server_version_num')::int4 as n",
  );
  const members = (version.rows[0]?.n ?? 0) >= schemasSince ? tableMembers + schemaMembers : tableMembers;
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

/** Whether a table's membership has gone on since `noted`, its mark when its changes were seen to come. */
export function isContinued(noted: string | undefined, mark: string | undefined): boolean {
  return noted === undefined || noted === mark;
}
