// Reads the partitions of tables that are carried by their roots, and remembers them. What partitions do to the root's
// rows without an event calls for another copy, or for a warning; partition-changes.ts decides.

import { createHash } from "node:crypto";
import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { SourceContext } from "../../source.ts";
import {
  type AttachedPartition,
  attachedPartitions,
  hasLostRows,
  movedRowsWarning,
  type Partition,
  type RememberedPartitions,
  type RowsCame,
  remedyForRows,
  rememberPartitions,
  unfitPartition,
  unfitPartitionWarning,
  unloggedPartitionWarning,
} from "../shapes/partition-changes.ts";
import type { SilentChanges } from "../shapes/silent-changes.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";
import { keyNumbersSql } from "./key-numbers.ts";

/** A root up to this size is copied again when rows may have come or gone. A larger one gets a warning. */
const maxRecopiedBytes = 1024 ** 3;
/**
 * Rows that are certainly older than an attachment are searched for in the first pages, because a table fills from
 * there.
 */
const searchedPages = 128;
/** For a locked partition. The stream is blocked meanwhile. */
const lockTimeoutMs = 1_000;
const shownWarnings = 3;
const keyPrefix = "partitions of ";

interface PartitionRow extends Partition {
  readonly root: number;
}

/**
 * `$1`: the roots' OIDs. A partition that is being detached has no rows of the root any more.
 *
 * A table that was created as a partition inherited its columns in the same command: at least one column still has the
 * version that the table was created with, as `ctid` always has. ATTACH PARTITION writes every column again.
 *
 * The files are those of the statement's snapshot, and so are the links.
 */
const partitionsQuery = `
with recursive tree as (
  select root, root as parent, root as id, '' as link, false as is_born from unnest($1::oid[]) as r(root)
  union all
  select tree.root, i.inhparent, i.inhrelid, i.xmin::text || ' ' || i.cmin::text,
    exists (
      select from pg_attribute made join pg_attribute a
        on a.attrelid = made.attrelid and a.attnum > 0 and a.attinhcount > 0 and a.xmin = made.xmin and a.cmin = made.cmin
      where made.attrelid = i.inhrelid and made.attnum = -1 and made.xmin = i.xmin)
  from tree join pg_inherits i on i.inhparent = tree.id and not i.inhdetachpending
)
select tree.root, tree.parent, c.oid as id, n.nspname as schema, c.relname as name, tree.link, tree.is_born as "isCreatedAsPartition",
  case when c.relkind = 'f' then 'foreign' when c.relkind = 'r' and c.relpersistence <> 'p' then 'unlogged' end as "notLogged",
  case c.relkind when 'p' then '' when 'f' then 'elsewhere' else coalesce(nullif(c.relfilenode, 0)::text, '') end as files,
  c.relreplident = 'f' as "sendsWholeRows", identity.names as identity
from tree
join pg_class c on c.oid = tree.id
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
  select json_agg(a.attname order by a.attnum) as names
  from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any(${keyNumbersSql})
  where i.indrelid = c.oid and i.indisvalid and i.indimmediate
    and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary else false end
) identity on true
where tree.id <> tree.root
order by tree.root, c.oid`;

/** `tables`, with what their partitions mean for them. Where another copy would be too large, a warning is recorded. */
export async function withPartitions(
  client: Client,
  { state, events }: Pick<SourceContext, "state" | "events">,
  changes: Pick<SilentChanges, "record">,
  tables: readonly SourceTable[],
): Promise<readonly SourceTable[]> {
  const roots = tables.filter((table) => table.isPartitioned).map((table) => table.relation.id);
  removeOthers(state, new Set(roots));
  const byRoot = await readPartitions(client, roots);
  const judged: SourceTable[] = [];
  const warnings: string[] = [];
  for (const table of tables) {
    if (!table.isPartitioned) {
      judged.push(table);
      continue;
    }
    const { relation } = table;
    const partitions = byRoot.get(relation.id) ?? [];
    const contents = await contentsOf(client, state, changes, table, partitions);
    const unlogged = partitions.find(({ notLogged }) => notLogged !== null);
    if (unlogged) warnings.push(unloggedPartitionWarning(relation, unlogged));
    const unfit = unfitPartition(relation, partitions);
    if (unfit) warnings.push(unfitPartitionWarning(relation, unfit));
    judged.push(
      unfit ? { ...table, contents: `${contents} inserts`, insertsOnly: true } : { ...table, contents },
    );
  }
  events.warning("partitions", warnings.length > 0 ? warnings.slice(0, shownWarnings).join(" ") : null);
  return judged;
}

async function readPartitions(client: Client, roots: readonly number[]) {
  if (roots.length === 0) return new Map<number, PartitionRow[]>();
  const { rows } = await client.query<PartitionRow>(partitionsQuery, [roots]);
  return Map.groupBy(rows, (row) => row.root);
}

function removeOthers(state: SourceContext["state"], roots: ReadonlySet<number>): void {
  const isOther = (key: string) =>
    key.startsWith(keyPrefix) && !roots.has(Number(key.slice(keyPrefix.length)));
  for (const key of state.keys().filter(isOther)) state.set(key, null);
}

async function contentsOf(
  client: Client,
  state: SourceContext["state"],
  changes: Pick<SilentChanges, "record">,
  table: SourceTable,
  partitions: readonly Partition[],
): Promise<string> {
  const key = `${keyPrefix}${table.relation.id}`;
  const before = JSON.parse(state.get(key) ?? "null") as RememberedPartitions | null;
  const came = before === null ? "no" : await rowsCame(client, attachedPartitions(before, partitions));
  const isLost = before !== null && hasLostRows(before, partitions);
  const remedy = remedyForRows(came, isLost, table.estimatedBytes <= maxRecopiedBytes);
  // The warning first: both are saved together.
  if (remedy === "warn") changes.record(table.relation.id, movedRowsWarning(table));
  // Derived from the partitions as they are, so that a value that is lost with the process comes out the same again.
  const contents = remedy === "copy" ? nameOf(partitions) : (before?.contents ?? "");
  state.set(key, JSON.stringify(rememberPartitions(partitions, contents)));
  return contents;
}

function nameOf(partitions: readonly Partition[]): string {
  const facts = JSON.stringify(partitions.map(({ id, files, link }) => [id, files, link]));
  return createHash("sha256").update(facts).digest("hex").slice(0, 16);
}

async function rowsCame(client: Client, attached: readonly AttachedPartition[]): Promise<RowsCame> {
  let came: RowsCame = "no";
  for (const partition of attached) {
    const each = await rowsCameWith(client, partition);
    if (each === "yes") return each;
    if (each === "perhaps") came = each;
  }
  return came;
}

/**
 * A role that may read the root need not be allowed to read the partition by itself. Others may alter the partition
 * meanwhile.
 */
const unreadable: ReadonlySet<string> = new Set([
  sqlState.insufficientPrivilege,
  sqlState.undefinedTable,
  sqlState.lockNotAvailable,
]);

/**
 * A row whose transaction began before the attachment was there before, or counts as such. A row of a later transaction
 * may have been there too, because the attaching transaction may have lasted long.
 */
async function rowsCameWith(client: Client, { partition, links }: AttachedPartition): Promise<RowsCame> {
  const madeBy = links.map((link) => link.split(" ")[0]);
  try {
    await client.query(`begin; set local lock_timeout = ${lockTimeoutMs}`);
    const { rows } = await client.query<{ came: RowsCame }>(
      `select case when not exists (select from only ${sqlName(partition)}) then 'no'
         when exists (select from only ${sqlName(partition)} where ctid < '(${searchedPages},0)'::tid
           and age(xmin) > (select min(age(made_by::xid)) from unnest($1::text[]) as l(made_by))) then 'yes'
         else 'perhaps' end as came`,
      [madeBy],
    );
    await client.query("commit");
    return rows[0]?.came ?? "perhaps";
  } catch (error) {
    if (!unreadable.has(sqlStateOf(error) ?? "")) throw error;
    await client.query("rollback");
    return "perhaps";
  }
}
