// Reads what validation needs to know of a source server and its tables, by one query each. source-checks.ts judges it.

import type { Client } from "pg";
import { keyNumbersSql } from "../catalog/key-numbers.ts";
import { readUndisturbed } from "../publication/undisturbed-read.ts";

/** The server and the role. */
export interface ServerFacts {
  readonly user: string;
  /** As `server_version_num`: 170005 is 17.5. */
  readonly version: number;
  readonly walLevel: string;
  readonly mayReplicate: boolean;
  readonly mayCreatePublication: boolean;
  readonly maxSlots: number;
  readonly usedSlots: number;
  readonly maxSenders: number;
  readonly usedSenders: number;
  /** As `SHOW` prints it; `-1`: no limit. */
  readonly maxSlotWalKeepSize: string;
  /** The same of `idle_replication_slot_timeout`, which version 18 added; `0`: no limit. */
  readonly idleSlotTimeout: string;
  /** Transactions that have been delaying the creation of a slot for long. */
  readonly longTransactions: readonly LongTransaction[];
  /** Processes whose transaction has written something, and whose start time the role may not see. */
  readonly hiddenTransactions: readonly number[];
}

export interface LongTransaction {
  /** Null: a prepared transaction, which belongs to no process. */
  readonly pid: number | null;
  readonly gid: string | null;
  readonly ageSeconds: number;
  readonly query: string;
}

/** A table that could be carried, and what the role and the publication allow. */
export interface TableFacts {
  readonly schema: string;
  readonly name: string;
  readonly id: number;
  /** The partitioned table at the top, for a partition; otherwise the table itself. */
  readonly rootId: number;
  readonly isPartitioned: boolean;
  readonly isPartition: boolean;
  readonly mayUseSchema: boolean;
  readonly maySelect: boolean;
  readonly isOwned: boolean;
  /** `d`efault, `n`othing, `f`ull, `i`ndex. */
  readonly replicaIdentity: string;
  /** The replica identity identifies a row. */
  readonly hasIdentity: boolean;
  readonly hasToastable: boolean;
  readonly isPublished: boolean;
  /** The columns that the publication lists; null: all columns, or the table is not published. */
  readonly publishedColumns: readonly string[] | null;
  readonly hasRowFilter: boolean;
  /** Without generated columns. */
  readonly columns: readonly string[];
  /** Columns of the primary key and of the replica identity's index. */
  readonly keyColumns: readonly string[];
}

/** A publication that the source names. */
export interface PublicationFacts {
  readonly insert: boolean;
  readonly update: boolean;
  readonly delete: boolean;
  readonly truncate: boolean;
  readonly viaRoot: boolean;
}

export const longTransactionSeconds = 60;

/** On managed servers, membership in one of these roles replaces the REPLICATION attribute. */
const replicationRoles = ["rds_replication", "rds_superuser", "cloudsqlsuperuser", "azure_pg_admin"];

const serverQuery = `
  select current_user as "user",
         current_setting('server_version_num')::int as version,
         current_setting('wal_level') as "walLevel",
         (r.rolreplication or r.rolsuper or exists (
           select from pg_roles m
            where m.rolname = any ($1) and pg_has_role(current_user, m.oid, 'MEMBER'))) as "mayReplicate",
         has_database_privilege(current_database(), 'CREATE') as "mayCreatePublication",
         current_setting('max_replication_slots')::int as "maxSlots",
         (select count(*)::int from pg_replication_slots) as "usedSlots",
         current_setting('max_wal_senders')::int as "maxSenders",
         (select count(*)::int from pg_stat_replication) as "usedSenders",
         current_setting('max_slot_wal_keep_size') as "maxSlotWalKeepSize",
         coalesce(current_setting('idle_replication_slot_timeout', true), '0') as "idleSlotTimeout"
    from pg_roles r
   where r.rolname = current_user`;

const transactionQuery = `
  select pid, null as gid, extract(epoch from now() - xact_start)::int as "ageSeconds",
         left(coalesce(nullif(query, ''), state, 'unknown'), 200) as query
    from pg_stat_activity
   where backend_xid is not null and pid <> pg_backend_pid() and xact_start < now() - $1 * interval '1 second'
  union all
  select null, gid, extract(epoch from now() - prepared)::int, 'PREPARE TRANSACTION'
    from pg_prepared_xacts
   where prepared < now() - $1 * interval '1 second'
  order by 3 desc
  limit 20`;

/** Everybody may see locks; only members of pg_read_all_stats see when other roles' transactions began. */
const hiddenQuery = `
  select distinct l.pid
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'transactionid' and l.granted and l.pid <> pg_backend_pid() and a.xact_start is null
   order by l.pid
   limit 20`;

const tableQuery = `
  select n.nspname as schema, c.relname as name,
         c.oid as id, coalesce(pg_partition_root(c.oid)::oid, c.oid) as "rootId",
         c.relkind = 'p' as "isPartitioned", c.relispartition as "isPartition",
         -- Null of what was dropped meanwhile.
         coalesce(has_schema_privilege(n.oid, 'USAGE'), true) as "mayUseSchema",
         coalesce(has_table_privilege(c.oid, 'SELECT'), true) as "maySelect",
         pg_has_role(c.relowner, 'USAGE') as "isOwned",
         c.relreplident::text as "replicaIdentity",
         c.relreplident = 'f' or exists (
           select from pg_index i
            where i.indrelid = c.oid and i.indisvalid and i.indimmediate
              and (c.relreplident = 'd' and i.indisprimary or c.relreplident = 'i' and i.indisreplident)
         ) as "hasIdentity",
         exists (
           select from pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
              and a.attlen = -1 and a.attstorage <> 'p'
         ) as "hasToastable",
         p.tablename is not null as "isPublished",
         to_jsonb(p) -> 'attnames' as "publishedColumns",
         coalesce(to_jsonb(p) ->> 'rowfilter', '') <> '' as "hasRowFilter",
         a.names as columns, k.names as "keyColumns"
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    left join pg_publication_tables p
      on p.pubname = $1 and p.schemaname = n.nspname and p.tablename = c.relname
    cross join lateral (
      select coalesce(json_agg(attname order by attnum), '[]') as names
        from pg_attribute
       where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = ''
    ) a
    cross join lateral (
      select coalesce(json_agg(distinct key.attname), '[]') as names
        from pg_index i
        join pg_attribute key on key.attrelid = c.oid and key.attnum = any (${keyNumbersSql})
       where i.indrelid = c.oid and (i.indisprimary or c.relreplident = 'i' and i.indisreplident)
    ) k
   where c.relkind in ('r', 'p') and c.relpersistence = 'p'
     and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
   order by 1, 2`;

const publicationQuery = `
  select pubinsert as insert, pubupdate as update, pubdelete as delete, pubtruncate as truncate,
         pubviaroot as "viaRoot"
    from pg_publication where pubname = $1`;

/** Like all functions here, it throws what `pg` throws. */
export async function readServerFacts(
  client: Client,
  longerThanSeconds = longTransactionSeconds,
): Promise<ServerFacts> {
  const server = await client.query<Omit<ServerFacts, "longTransactions" | "hiddenTransactions">>(
    serverQuery,
    [replicationRoles],
  );
  const transactions = await client.query<LongTransaction>(transactionQuery, [longerThanSeconds]);
  const hidden = await client.query<{ pid: number }>(hiddenQuery);
  const facts = server.rows[0];
  if (!facts) throw new Error("pg_roles has no row for the role that is logged in");
  return {
    ...facts,
    longTransactions: transactions.rows,
    hiddenTransactions: hidden.rows.map(({ pid }) => pid),
  };
}

/** Every table outside the system's schemas. `publication` null: none of them is published. */
export async function readTableFacts(client: Client, publication: string | null): Promise<TableFacts[]> {
  const { rows } = await readUndisturbed(client, () => client.query<TableFacts>(tableQuery, [publication]));
  return rows;
}

export interface OwnSlot {
  /** A walsender is streaming from it. */
  readonly active: boolean;
}

/** Null: there is no slot of that name. */
export async function readOwnSlot(client: Client, name: string): Promise<OwnSlot | null> {
  const { rows } = await client.query<OwnSlot>(
    "select active from pg_replication_slots where slot_name = $1 and plugin = 'pgoutput'",
    [name],
  );
  return rows[0] ?? null;
}

/** Null: there is no publication of that name. */
export async function readPublicationFacts(client: Client, name: string): Promise<PublicationFacts | null> {
  const { rows } = await client.query<PublicationFacts>(publicationQuery, [name]);
  return rows[0] ?? null;
}
