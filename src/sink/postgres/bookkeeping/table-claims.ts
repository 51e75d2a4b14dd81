// Records which connector writes to which target. Two connectors must not write to one, as neither would know the other's rows. A connector
// that is not running loses its targets to the next one that claims them, and copies them again when it gets them back.

import type { Client } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TargetName } from "../schema/target-name.ts";
import { lockSpace } from "./connector-lock.ts";
import type { CopyLedger } from "./copy-ledger.ts";

interface ClaimRow {
  readonly schema: string;
  readonly name: string;
  readonly owner: string;
  readonly is_running: boolean;
}

const ownQuery =
  "select table_schema as schema, table_name as name from millrace.table_claim where connector_id = $1";

/** A running connector holds its lock: see connector-lock.ts. Two ids may have one hash. */
const claimedQuery = `
select c.table_schema as schema, c.table_name as name, c.connector_id as owner, exists (
    select from pg_locks l where l.locktype = 'advisory' and l.granted and l.pid <> pg_backend_pid()
      and l.database = (select oid from pg_database where datname = current_database()) and l.objsubid = 2
      and l.classid = $4::int8::oid and l.objid = (hashtext(c.connector_id)::int8 & 4294967295)::oid) as is_running
from millrace.table_claim c join unnest($2::text[], $3::text[]) as t(schema, name)
  on t.schema = c.table_schema and t.name = c.table_name
where c.connector_id <> $1`;

const claimSql = `
insert into millrace.table_claim (table_schema, table_name, connector_id)
select distinct schema, name, $1 from unnest($2::text[], $3::text[]) as t(schema, name)
on conflict (table_schema, table_name) do update set connector_id = excluded.connector_id
where table_claim.connector_id <> excluded.connector_id`;

/**
 * Voids the former owner's copies of these targets. Later the claims alone would not tell it that somebody else wrote there: that connector may
 * have released the target or be gone. Old records without targets are all voided. Targets are looked up in a hash table: as a join each of an
 * owner's copies is compared with each of its targets.
 */
const voidSql = `
with taken as (select * from unnest($1::text[], $2::text[]) as t(owner, target))
update millrace.table_copy c set point_lsn = '0/0'
where (c.connector_id, c.targets[cardinality(c.targets)]) in (select owner, target from taken)
  or c.targets = '{}' and c.connector_id in (select owner from taken)`;

/** Unfinished copies into the targets themselves are not told by target: a former owner begins all of its own anew. */
const forgetBegunSql = `
with begun as (delete from millrace.divided_copy where is_beside and connector_id = any ($1) returning connector_id, table_id)
delete from millrace.copied_range r using begun b where r.connector_id = b.connector_id and r.table_id = b.table_id`;

const releaseSql = `
delete from millrace.table_claim c where connector_id = $1 and not exists (
  select from unnest($2::text[], $3::text[]) as t(schema, name) where t.schema = c.table_schema and t.name = c.table_name)`;

/** Claims `targets` for the connector, and voids its copies in targets that another has owned since. In a transaction of its own. */
export async function claimTargets(
  client: Client,
  connectorId: string,
  targets: readonly TargetName[],
  ledger: CopyLedger,
): Promise<void> {
  try {
    // Two connectors that start at the same time must see each other's claims.
    await client.query("begin; lock table millrace.table_claim in share row exclusive mode");
    const lost = await claimTables(client, connectorId, targets);
    await ledger.void(client, ledger.amongTargets(lost));
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/**
 * In the open transaction, with the claims locked: makes `targets`, and no others, the connector's. Returns those that another connector owned
 * and may have written to. Throws `sink_table_taken` if that one is running.
 */
async function claimTables(
  client: Client,
  connectorId: string,
  targets: readonly TargetName[],
): Promise<readonly TargetName[]> {
  const own = await client.query<TargetName>(ownQuery, [connectorId]);
  if (areSame(own.rows, targets)) return [];
  const names = [targets.map(({ schema }) => schema), targets.map(({ name }) => name)];
  const { rows } = await client.query<ClaimRow>(claimedQuery, [connectorId, ...names, lockSpace]);
  const taken = rows.find(({ is_running }) => is_running);
  if (taken) throw tableTaken(taken);
  const owners = rows.map(({ owner }) => owner);
  if (rows.length > 0) {
    await client.query(voidSql, [owners, rows.map(qualifiedName)]);
    await client.query(forgetBegunSql, [owners]);
  }
  await client.query(claimSql, [connectorId, ...names]);
  await client.query(releaseSql, [connectorId, ...names]);
  return rows.map(({ schema, name }) => ({ schema, name }));
}

function areSame(some: readonly TargetName[], others: readonly TargetName[]): boolean {
  const names = (targets: readonly TargetName[]) => new Set(targets.map(qualifiedName));
  return names(some).symmetricDifference(names(others)).size === 0;
}

function tableTaken(row: ClaimRow): MillraceError {
  return new MillraceError(
    "sink_table_taken",
    `Connector ${row.owner} is running and writes to table ${qualifiedName(row)} at the sink: two connectors cannot write to one ` +
      "table. Stop one of them, leave the table out of its catalog, or give it another target_schema.",
  );
}
