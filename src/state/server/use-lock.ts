// Whoever works on a state database holds a shared advisory lock for as long as it does, and whoever changes the key of
// everything that is stored needs to be alone. It says nothing about who runs what: that is what leases are for.

import { type SQL, sql } from "drizzle-orm";

/** "mill" and "used" as two int4: the lock's key in the database. */
const lockName = [0x6d696c6c, 0x75736564] as const;

/** Of the session. Waits for one that needs to be alone. */
export const shareUseSql = `select pg_advisory_lock_shared(${lockName.join(", ")})`;

/** The same, of the transaction. */
export const shareUseMeanwhileSql: SQL = sql`select pg_advisory_xact_lock_shared(${sql.raw(lockName.join(", "))})`;

/** Of the transaction: whether nobody else works on the state. Nobody begins to until it is over. */
export const aloneSql: SQL = sql`select pg_try_advisory_xact_lock(${sql.raw(lockName.join(", "))}) as alone`;
