// Locks a table for reading. Locking a partitioned table locks its partitions one by one, and another session may lock
// them in another order: if we waited for one as long as deadlock_timeout, the deadlock check could abort that
// session's transaction.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** Between two attempts, so that whoever waits for one of the locks gets it. */
const pauseMs = 100;

const boundsQuery = `
select (select setting::int from pg_settings where name = 'deadlock_timeout') as deadlock,
  (select setting::int from pg_settings where name = 'lock_timeout') as bound`;

/** Runs in the open transaction, before it reads anything. Throws the server's error after `lock_timeout`. */
export async function lockForReading(client: Client, { relation, isPartitioned }: TableShape): Promise<void> {
  const lock = `lock table ${sqlName(relation)} in access share mode`;
  if (!isPartitioned) {
    await client.query(lock);
    return;
  }
  const { rows } = await client.query<{ deadlock: number; bound: number }>(boundsQuery);
  const { deadlock = 1_000, bound = 0 } = rows[0] ?? {};
  const briefMs = Math.min(500, Math.ceil(deadlock / 2), bound || 500);
  const until = performance.now() + bound;
  while (true) {
    await client.query(`savepoint millrace_lock; set local lock_timeout = ${briefMs}`);
    try {
      await client.query(lock);
      await client.query(`set local lock_timeout = ${bound}; release savepoint millrace_lock`);
      return;
    } catch (error) {
      const isOver = bound > 0 && performance.now() >= until;
      if (sqlStateOf(error) !== sqlState.lockNotAvailable || isOver) throw error;
      await client.query("rollback to savepoint millrace_lock");
      await sleep(pauseMs);
    }
  }
}
