// Reads the partitions of tables that are carried by their roots, and remembers them from look to look: what they do to the
// root's rows without an event calls for another copy, or for a warning. The decisions are partition-changes.ts's.

import { createHash } from "node:crypto";
import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { SourceContext } from "../../source.ts";
import {
  hasLostRows,
  movedRowsWarning,
  type Newcomer,
  type NotedPartitions,
  newcomers,
  notePartitions,
  type Partition,
  type RowsCame,
  remedyForRows,
  unfitPartition,
  unfitPartitionWarning,
  unloggedPartitionWarning,
} from "../shapes/partition-changes.ts";
import type { SilentChanges } from "../shapes/silent-changes.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";

/** A root up to this size is copied again when rows may have come or gone; for a larger one there is a warning. */
const copiedUnaskedBytes = 1024 ** 3;
/** Rows that are certainly older than a link are looked for in the first pages: a table fills from there. */
const searchedPages = 128;
/** For whoever locks a partition: the stream stands meanwhile. */
const lockTimeoutMs = 1_000;
const shownWarnings = 3;
const notePrefix = "partitions of ";

interface PartitionRow extends Partition {
  readonly root: number;
}

/**
 * `$1`: the roots' OIDs. One that is being detached has no rows of the root's any more.
 *
 * A table that was made as a partition inherited its columns as they were made: one of them, or all, still are what the table
 * was made with, as `ctid` always is. ATTACH PARTITION writes each of them anew.
 *
 * The files are those of the statement's snapshot, as the links are.
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
select tree.root, tree.parent, c.oid as id, n.nspname as schema, c.relname as name, tree.link, tree.is_born as "isBorn",
  case when c.relkind = 'f' then 'foreign' when c.relkind = 'r' and c.relpersistence <> 'p' then 'unlogged' end as "notLogged",
  case c.relkind when 'p' then '' when 'f' then 'elsewhere' else coalesce(nullif(c.relfilenode, 0)::text, '') end as files,
  c.relreplident = 'f' as "sendsWholeRows", identity.names as identity
from tree
join pg_class c on c.oid = tree.id
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
  select json_agg(a.attname order by a.attnum) as names
  from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey::int2[])
  where i.indrelid = c.oid and i.indisvalid and i.indimmediate
    and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary else false end
) identity on true
where tree.id <> tree.root
order by tree.root, c.oid`;

/** `tables` with what their partitions make of them. Where another copy would be too large to be made unasked, that is noted. */
export async function withPartitions(
  client: Client,
  { notes, events }: Pick<SourceContext, "notes" | "events">,
  changes: Pick<SilentChanges, "note">,
  tables: readonly SourceTable[],
): Promise<readonly SourceTable[]> {
  const roots = tables.filter((table) => table.isPartitioned).map((table) => table.relation.id);
  forgetOthers(notes, new Set(roots));
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
    const contents = await contentsOf(client, notes, changes, table, partitions);
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

function forgetOthers(notes: SourceContext["notes"], roots: ReadonlySet<number>): void {
  const isOther = (key: string) =>
    key.startsWith(notePrefix) && !roots.has(Number(key.slice(notePrefix.length)));
  for (const key of notes.keys().filter(isOther)) notes.set(key, null);
}

async function contentsOf(
  client: Client,
  notes: SourceContext["notes"],
  changes: Pick<SilentChanges, "note">,
  table: SourceTable,
  partitions: readonly Partition[],
): Promise<string> {
  const note = `${notePrefix}${table.relation.id}`;
  const noted = JSON.parse(notes.get(note) ?? "null") as NotedPartitions | null;
  const came = noted === null ? "no" : await rowsCame(client, newcomers(noted, partitions));
  const isLost = noted !== null && hasLostRows(noted, partitions);
  const remedy = remedyForRows(came, isLost, table.estimatedBytes <= copiedUnaskedBytes);
  // The warning first: the notes are saved together.
  if (remedy === "warn") changes.note(table.relation.id, movedRowsWarning(table));
  // Named by the partitions as they are, so that a note that is lost with the process comes out the same again.
  const contents = remedy === "copy" ? nameOf(partitions) : (noted?.contents ?? "");
  notes.set(note, JSON.stringify(notePartitions(partitions, contents)));
  return contents;
}

function nameOf(partitions: readonly Partition[]): string {
  const facts = JSON.stringify(partitions.map(({ id, files, link }) => [id, files, link]));
  return createHash("sha256").update(facts).digest("hex").slice(0, 16);
}

async function rowsCame(client: Client, those: readonly Newcomer[]): Promise<RowsCame> {
  let came: RowsCame = "no";
  for (const newcomer of those) {
    const each = await rowsCameWith(client, newcomer);
    if (each === "yes") return each;
    if (each === "perhaps") came = each;
  }
  return came;
}

/** Whoever may read the root need not be allowed to read the partition by itself; and others may alter it meanwhile. */
const unreadable: ReadonlySet<string> = new Set([
  sqlState.insufficientPrivilege,
  sqlState.undefinedTable,
  sqlState.lockNotAvailable,
]);

/**
 * A row of a transaction that began before the link was made was there before, or is taken for one. One of a later transaction
 * may have been: the link's own may have gone on for long.
 */
async function rowsCameWith(client: Client, { partition, links }: Newcomer): Promise<RowsCame> {
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
