// What is replicated: each load is written while the contender stands still, and then caught up with.

import type { PostgresServer } from "../src/demo/postgres-server.ts";
import { database } from "./bench-servers.ts";
import { fillHot, fillLarge, fillTpcB, fillWide, insertRange, tpcB } from "./bench-tables.ts";

export interface Load {
  readonly name: string;
  /** What the rate counts: rows, or transactions where those are the load. */
  readonly count: number;
  /** Rows that must be there before, and have been replicated. */
  readonly before: string | null;
  readonly goal: Goal;
  /** Resolves when everything is committed. */
  write(server: PostgresServer): Promise<void>;
}

/** What is wanted: ratios to Postgres' own subscription, where nothing else is said. */
export interface Goal {
  readonly rate?: number;
  /** The ratio to two psql and a pipe. */
  readonly ofPipe?: number;
  /** Rows a second, where there is nobody to compare with. */
  readonly perSecond?: number;
  readonly sinkCpu?: number;
  readonly sinkWal?: number;
}

export function fill(rows: number): string {
  return insertRange("1", String(rows));
}

/** Runs `body` once for each of `count` values of `n`, with a commit after each. */
async function inTransactions(
  server: PostgresServer,
  count: number,
  body: string,
  declare = "",
): Promise<void> {
  await using client = await server.connect(database);
  // The writer does not wait for its disk: what is measured is the reader.
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

/** 900 rows are changed and 100 removed in each transaction, spread over all of the table. */
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
