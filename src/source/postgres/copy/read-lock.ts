// The lock under which a table is read. That of a partitioned one is many, taken one after the other, and somebody may want them in
// another order: a wait for one that lasts as long as the server takes to look for deadlocks could have their transaction ended.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** Between two attempts: whoever waits for one of the tables has it then. */
const pauseMs = 100;

const boundsQuery = `
select (select setting::int from pg_settings where name = 'deadlock_timeout') as deadlock,
  (select setting::int from pg_settings where name = 'lock_timeout') as bound`;

/** In the open transaction, which has read nothing yet. Throws what the server says when it takes longer than `lock_timeout`. */
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
