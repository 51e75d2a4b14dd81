// Makes millrace's own tables in the target database, or what an earlier version's lack. Connectors of other roles, and other replicas of the
// earlier version, may be at work in them: nothing is locked that is not changed, and no lock is waited for long.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { addColumns, type BookkeepingTable, bookkeepingTables, createTable } from "./bookkeeping-tables.ts";
import { lockSpace } from "./connector-lock.ts";

/** How long we wait for the lock: other sessions that need the table queue behind us meanwhile. */
const lockWaitMs = 2_000;
/** Between two attempts, so that those get it. */
const pauseMs = 500;

interface TableAtSink {
  readonly name: string;
  readonly columns: readonly string[];
  readonly owner: string;
  readonly isOurs: boolean;
}

/** A table with columns that it lacks. */
interface Lacking {
  readonly table: TableAtSink;
  readonly columns: readonly string[];
}

/** Waits until it has done so. Throws `sink_permission_denied` with the SQL where a table is another role's. */
export async function ensureBookkeeping(client: Client): Promise<void> {
  while (true) {
    const there = await readTables(client);
    const lacking = bookkeepingTables.flatMap((table) => lackingColumns(table, there.get(table.name)));
    const [first] = lacking;
    if (there.size < bookkeepingTables.length) await attempt(client, () => createTables(client));
    else if (!first) return;
    else if (lacking.some(({ table }) => !table.isOurs)) throw notOurs(client, lacking);
    else await attempt(client, () => client.query(sqlOf(first)));
  }
}

/** Also of tables that the role may not read. */
async function readTables(client: Client): Promise<ReadonlyMap<string, TableAtSink>> {
  const { rows } = await client.query<TableAtSink>(
    `select c.relname as name, pg_get_userbyid(c.relowner) as owner, pg_has_role(c.relowner, 'USAGE') as "isOurs",
       array(select attname::text from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped) as columns
     from pg_class c where c.relnamespace = (select oid from pg_namespace where nspname = 'millrace') and c.relname = any ($1)`,
    [bookkeepingTables.map(({ name }) => name)],
  );
  return new Map(rows.map((table) => [table.name, table]));
}

function lackingColumns({ added }: BookkeepingTable, table: TableAtSink | undefined): readonly Lacking[] {
  if (!table) return [];
  const columns = added.filter((column) => !table.columns.includes(column.split(" ", 1)[0] ?? ""));
  return columns.length === 0 ? [] : [{ table, columns }];
}

function sqlOf({ table, columns }: Lacking): string {
  return addColumns(table.name, columns);
}

/** In a transaction that is tried again, by the caller, where a lock is not to be had. */
async function attempt(client: Client, work: () => Promise<unknown>): Promise<void> {
  await client.query(`begin; set local lock_timeout = ${lockWaitMs}`);
  try {
    await work();
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    if (sqlStateOf(error) !== sqlState.lockNotAvailable) throw error;
    await sleep(pauseMs);
  }
}

/** Whoever may use the checkpoints may use the new tables: connectors of other roles need them as well. */
async function createTables(client: Client): Promise<void> {
  await client.query("select pg_advisory_xact_lock($1, 0)", [lockSpace]);
  // Another connector may have made them just now.
  const there = await readTables(client);
  const tables = bookkeepingTables.filter(({ name }) => !there.has(name));
  if (tables.length === 0) return;
  const { rowCount } = await client.query("select from pg_namespace where nspname = 'millrace'");
  if (rowCount === 0) await client.query("create schema millrace");
  await client.query(tables.map(createTable).join("\n"));
  const { rows } = await client.query<{ sql: string }>(
    `select format('grant %s on millrace.%I to %s;', string_agg(distinct acl.privilege_type, ', '), t.name,
       case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end) as sql
     from unnest($1::text[]) t (name), pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) acl
     where c.oid = 'millrace.checkpoint'::regclass and pg_get_userbyid(acl.grantee) <> current_user
     group by t.name, acl.grantee`,
    [tables.map(({ name }) => name)],
  );
  await client.query(rows.map(({ sql }) => sql).join(" "));
}

function notOurs({ user }: Client, lacking: readonly Lacking[]): MillraceError {
  const others = lacking.filter(({ table }) => !table.isOurs);
  const owners = [...new Set(others.map(({ table }) => table.owner))].join(" and ");
  const commands = others.map(sqlOf);
  return new MillraceError(
    "sink_permission_denied",
    `Role ${user} may not add the columns that this version needs to millrace's own tables. Let their owner ${owners}, or a ` +
      `superuser, run: ${commands.join("; ")};`,
    { commands },
  );
}
