// Judges the facts of a source for a connector: one finding for each test, with the SQL that fixes it. Pure.
// Publications that the source names are judged in publication-checks.ts.

import { escapeIdentifier, escapeLiteral } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";
import type { Finding } from "../../../connection/validation-log.ts";
import { orExclude } from "../publication/unpublished-wording.ts";
import { createPublicationSql } from "./privileges.ts";
import {
  type LongTransaction,
  longTransactionSeconds,
  type ServerFacts,
  type TableFacts,
} from "./source-facts.ts";
import { listedTables, tableCommands } from "./table-wording.ts";

const passed: Finding = { type: "passed" };

export function checkReplicationPrivilege(server: ServerFacts): Finding {
  if (server.mayReplicate) return passed;
  return {
    type: "failed",
    reason: "The role lacks the REPLICATION attribute.",
    commands: [`ALTER ROLE ${escapeIdentifier(server.user)} REPLICATION;`],
  };
}

export function checkSelectPrivilege(server: ServerFacts, tables: readonly TableFacts[]): Finding {
  const user = escapeIdentifier(server.user);
  const closed = [...new Set(tables.filter((table) => !table.mayUseSchema).map((table) => table.schema))];
  const unreadable = tables.filter((table) => !table.maySelect);
  const denied = tables.filter((table) => !table.maySelect || !table.mayUseSchema);
  if (denied.length === 0) return { type: "passed", message: `${tables.length} tables.` };
  return {
    type: "failed",
    reason: `The role may not read ${listedTables(denied)}.`,
    commands: [
      ...closed.map((schema) => `GRANT USAGE ON SCHEMA ${escapeIdentifier(schema)} TO ${user};`),
      ...tableCommands(unreadable, (table) => [`GRANT SELECT ON TABLE ${sqlName(table)} TO ${user};`]),
    ],
  };
}

/**
 * Needed only where the service creates the publication: that takes CREATE on the database and ownership of every
 * table.
 */
export function checkPublicationPrivilege(
  server: ServerFacts,
  database: string,
  tables: readonly TableFacts[],
  viaRoot: boolean,
): Finding {
  const foreign = tables.filter((table) => !table.isOwned);
  if (server.mayCreatePublication && foreign.length === 0) return passed;
  const grant = `GRANT CREATE ON DATABASE ${escapeIdentifier(database)} TO ${escapeIdentifier(server.user)};`;
  const create = `${createPublicationSql("millrace", tables, viaRoot)};`;
  return {
    type: "failed",
    reason:
      foreign.length > 0
        ? `Only a table's owner can publish it, and the role does not own ${listedTables(foreign)}. Let the owner make a publication, and name it in publication_name. ${orExclude(foreign)}`
        : "The role may not make a publication in this database.",
    commands: [...(server.mayCreatePublication ? [] : [grant]), ...(foreign.length > 0 ? [create] : [])],
  };
}

export function checkWalLevel(server: ServerFacts): Finding {
  if (server.walLevel === "logical") return passed;
  return {
    type: "failed",
    reason: `wal_level is ${server.walLevel}; it must be logical. The server has to be restarted after the change.`,
    commands: ["ALTER SYSTEM SET wal_level = 'logical';"],
  };
}

/** By major version: the first minor one whose logical decoding tells open transactions of what was altered meanwhile. */
const firstWhole: ReadonlyMap<number, number> = new Map([
  [14, 18],
  [15, 13],
  [16, 9],
  [17, 5],
]);

/**
 * The next minor release is named: in the first one the messages could multiply until decoding failed.
 * https://www.postgresql.org/docs/release/17.5/
 */
export function checkRelease({ version }: ServerFacts): Finding {
  const [major, minor] = [Math.floor(version / 10_000), version % 10_000];
  const whole = firstWhole.get(major);
  if (whole === undefined || minor >= whole) return passed;
  return {
    type: "warned",
    message:
      `When a table is published while a transaction that has written to it is open, PostgreSQL ${major}.${minor} may leave out ` +
      `the table's changes from then on, and nothing tells of it. Upgrade the server to ${major}.${whole + 1} or a later ${major}.`,
  };
}

export function checkSlots(server: ServerFacts): Finding {
  const free = server.maxSlots - server.usedSlots;
  if (free > 0) return { type: "passed", message: `${free} of ${server.maxSlots} are free.` };
  return {
    type: "failed",
    reason: `All ${server.maxSlots} replication slots are taken. The server has to be restarted after the change.`,
    commands: [
      `ALTER SYSTEM SET max_replication_slots = ${server.maxSlots + 10};`,
      "SELECT slot_name, active, wal_status FROM pg_replication_slots WHERE NOT active;",
    ],
  };
}

export function checkSenders(server: ServerFacts): Finding {
  const free = server.maxSenders - server.usedSenders;
  if (free > 0) return { type: "passed", message: `${free} of ${server.maxSenders} are free.` };
  return {
    type: "failed",
    reason: `All ${server.maxSenders} WAL senders are taken. The server has to be restarted after the change.`,
    commands: [`ALTER SYSTEM SET max_wal_senders = ${server.maxSenders + 10};`],
  };
}

/**
 * A table without a replica identity goes into a publication of its own that carries inserts only. In a publication
 * that carries updates, it would make the application's own UPDATE and DELETE fail.
 */
export function checkReplicaIdentity(tables: readonly TableFacts[], isPublicationOurs: boolean): Finding {
  const nameless = tables.filter((table) => !table.hasIdentity);
  if (nameless.length === 0) return passed;
  const outcome = isPublicationOurs
    ? "only their inserts are carried."
    : "while published with updates, the application's own UPDATE and DELETE of them fail.";
  return {
    type: "warned",
    message: `Nothing names a row of ${listedTables(nameless)}: ${outcome}`,
    commands: fullIdentity(nameless),
  };
}

/** Under `ReplicaIdentityFull` a large value that an UPDATE did not touch is taken from the old row. */
export function checkToast(tables: readonly TableFacts[], usesOldRow: boolean): Finding {
  if (!usesOldRow) return { type: "skipped", reason: "toast_mode is Placeholder." };
  const partial = tables.filter((table) => table.hasToastable && table.replicaIdentity !== "f");
  if (partial.length === 0) return passed;
  return {
    type: "warned",
    message: `An UPDATE that leaves a large value untouched comes without that value for ${listedTables(partial)}: a Postgres sink keeps what it has, a row at a webhook or in Kafka lacks the column.`,
    commands: fullIdentity(partial),
  };
}

function fullIdentity(tables: readonly TableFacts[]): string[] {
  return tableCommands(tables, (table) => [`ALTER TABLE ${sqlName(table)} REPLICA IDENTITY FULL;`]);
}

export function checkWalRetention({ maxSlotWalKeepSize, idleSlotTimeout }: ServerFacts): Finding {
  const [size, idle] = ["max_slot_wal_keep_size", "idle_replication_slot_timeout"];
  const limits = [
    { name: size, value: maxSlotWalKeepSize, none: "-1", when: "falls behind by more than" },
    {
      name: idle,
      value: idleSlotTimeout,
      none: "0",
      when: "is stopped, or copies its tables, for longer than",
    },
  ].filter(({ value, none }) => value !== none);
  if (limits.length === 0) return { type: "passed", message: "No limit." };
  const cases = limits.map(({ name, value, when }) => `${when} ${name} (${value})`);
  const lift = limits.map(({ name, none }) => `ALTER SYSTEM SET ${name} = ${none};`);
  return {
    type: "warned",
    message: `A connector loses its slot, and needs a new snapshot, when it ${cases.join(", or ")}.`,
    commands: [...lift, "SELECT pg_reload_conf();"],
  };
}

/** Creating a slot waits for every open transaction that has written something. */
export function checkLongTransactions(server: ServerFacts): Finding {
  if (server.longTransactions.length === 0) return checkHiddenTransactions(server);
  const described = server.longTransactions.map(
    (open) =>
      `${open.pid === null ? `prepared ${open.gid}` : `pid ${open.pid}`}, ${open.ageSeconds} s: ${open.query}`,
  );
  return {
    type: "warned",
    message: `The slot cannot be made before these transactions end, open for more than ${longTransactionSeconds} s: ${described.join("; ")}`,
    commands: server.longTransactions.map(endTransaction),
  };
}

function checkHiddenTransactions({ user, hiddenTransactions }: ServerFacts): Finding {
  if (hiddenTransactions.length === 0) return passed;
  return {
    type: "warned",
    message:
      `Transactions of other roles have written and are open (pid ${hiddenTransactions.join(", ")}); since when, the role ` +
      "may not see. The slot is made when they have ended.",
    commands: [`GRANT pg_read_all_stats TO ${escapeIdentifier(user)};`],
  };
}

function endTransaction(open: LongTransaction): string {
  return open.pid === null
    ? `ROLLBACK PREPARED ${escapeLiteral(open.gid ?? "")};`
    : `SELECT pg_terminate_backend(${open.pid});`;
}
