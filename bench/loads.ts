// The streaming loads. Each is written while the contender is paused, and then measured until the contender has caught
// up.

import type { PostgresServer } from "../src/demo/postgres-server.ts";
import { database } from "./bench-servers.ts";
import { fillHot, fillLarge, fillTpcB, fillWide, insertRange, tpcB } from "./bench-tables.ts";

export interface Load {
  readonly name: string;
  /** The unit of the rate: rows, or transactions where those are the load. */
  readonly count: number;
  /** SQL for rows that must be replicated before the load starts. */
  readonly before: string | null;
  readonly goal: Goal;
  /** Writes the load. Resolves when everything is committed. */
  write(server: PostgresServer): Promise<void>;
}

/** The goals. They are ratios to Postgres' own subscription unless stated otherwise. */
export interface Goal {
  readonly rate?: number;
  /** Ratio to two psql processes joined by a pipe. */
  readonly ofPipe?: number;
  /** Rows per second, for loads without a comparison. */
  readonly perSecond?: number;
  readonly sinkCpu?: number;
  readonly sinkWal?: number;
}

export function fill(rows: number): string {
  return insertRange("1", String(rows));
}

/** Runs `body` for `n` from 0 to `count - 1`, each in its own transaction. */
async function inTransactions(
  server: PostgresServer,
  count: number,
  body: string,
  declare = "",
): Promise<void> {
  await using client = await server.connect(database);
  // The writer does not wait for its disk, because the reader is what is measured.
  await client.query("set synchronous_commit = off");
  await client.query(
    `do $$ <<tpcb>> declare ${declare} begin for n in 0..${count - 1} loop ${body}; commit; end loop; end $$`,
  );
}

function inOneTransaction(name: string, count: number, goal: Goal, sql: string): Load {
  const write = async (server: PostgresServer) => {
    await server.query(sql, database);
  };
  return { name, count, before: null, goal, write };
}

export function loads(rows: number): readonly Load[] {
  const part = (divisor: number) => Math.max(1, Math.floor(rows / divisor));
  return [
    inOneTransaction("one transaction", rows, { rate: 1.5, sinkCpu: 0.6 }, fill(rows)),
    ...smallTransactions(part(1000), part(5)),
    tpcBMix(part(20), part(100_000)),
    updatesAndDeletes(part(1000)),
    inOneTransaction("one transaction, 40 columns", part(4), { rate: 1.2 }, fillWide(part(4))),
    inOneTransaction("one transaction, 4 kB rows", part(10), { rate: 1.2 }, fillLarge(part(10))),
  ];
}

export function thousandInsertsEach(transactions: number): Load {
  return {
    name: "1,000 inserts each",
    count: transactions * 1000,
    before: null,
    goal: { rate: 1.4, sinkCpu: 0.6 },
    write: (server) => inTransactions(server, transactions, insertRange("n * 1000 + 1", "n * 1000 + 1000")),
  };
}

function smallTransactions(thousands: number, singles: number): readonly Load[] {
  const hotKeys = 1000;
  return [
    thousandInsertsEach(thousands),
    {
      name: "one insert each",
      count: singles,
      before: null,
      goal: { rate: 1, sinkCpu: 0.5 },
      write: (server) => inTransactions(server, singles, insertRange("n", "n")),
    },
    {
      name: `one update each, ${hotKeys} keys`,
      count: singles,
      before: fillHot(hotKeys),
      goal: { rate: 1, sinkWal: 0.1 },
      write: (server) =>
        inTransactions(
          server,
          singles,
          `update bench_hot set number = number + 1, at = now() where id = 1 + (n * 7919) % ${hotKeys}`,
        ),
    },
  ];
}

function tpcBMix(transactions: number, scale: number): Load {
  return {
    name: "TPC-B transactions",
    count: transactions,
    before: fillTpcB(scale),
    goal: { rate: 1.2, sinkWal: 0.6 },
    write: (server) =>
      inTransactions(server, transactions, tpcB(scale), "aid int; bid int; tid int; delta int;"),
  };
}

/** Each transaction updates 900 rows and deletes 100, spread over the whole table. */
function updatesAndDeletes(thousands: number): Load {
  const some = (from: number, to: number) =>
    `(select 1 + (n + i * ${thousands}) from generate_series(${from}, ${to}) i)`;
  return {
    name: "updates and deletes",
    count: thousands * 1000,
    before: fill(thousands * 1000),
    goal: { rate: 1.3 },
    write: (server) =>
      inTransactions(
        server,
        thousands,
        `update bench set number = number + 1, at = now() where id in ${some(0, 899)};
         delete from bench where id in ${some(900, 999)}`,
      ),
  };
}
