// What is replicated: each load is written while the contender stands still, and then caught up with.

import type { PostgresServer } from "../src/demo/postgres-server.ts";
import { columns, database } from "./bench-servers.ts";

export interface Load {
  readonly name: string;
  readonly rows: number;
  /** Rows that must be there before, and have been replicated. */
  readonly before: string | null;
  /** Resolves when everything is committed. */
  write(server: PostgresServer): Promise<void>;
}

const insertRange = (from: string, to: string) =>
  `insert into bench select ${columns} from generate_series(${from}, ${to}) i`;

export function fill(rows: number): string {
  return insertRange("1", String(rows));
}

/** Runs `body` once for each of `count` values of `n`, with a commit after each. */
async function inTransactions(server: PostgresServer, count: number, body: string): Promise<void> {
  await using client = await server.connect(database);
  // The writer does not wait for its disk: what is measured is the reader.
  await client.query("set synchronous_commit = off");
  await client.query(`do $$ begin for n in 0..${count - 1} loop ${body}; commit; end loop; end $$`);
}

export function loads(rows: number, singleRows: number): readonly Load[] {
  const thousands = Math.max(1, Math.floor(rows / 1000));
  return [
    {
      name: "stream, one transaction",
      rows,
      before: null,
      write: async (server) => {
        await server.query(fill(rows), database);
      },
    },
    {
      name: "stream, 1,000 rows each",
      rows: thousands * 1000,
      before: null,
      write: (server) => inTransactions(server, thousands, insertRange("n * 1000 + 1", "n * 1000 + 1000")),
    },
    {
      name: "stream, one row each",
      rows: singleRows,
      before: null,
      write: (server) => inTransactions(server, singleRows, insertRange("n", "n")),
    },
    {
      name: "updates and deletes",
      rows: thousands * 1000,
      before: fill(rows),
      write: (server) =>
        inTransactions(
          server,
          thousands,
          // 900 rows are changed and 100 removed, spread over all of the table.
          `update bench set number = number + 1, at = now() where id in (select 1 + (n + i * ${thousands}) from generate_series(0, 899) i);
           delete from bench where id in (select 1 + (n + i * ${thousands}) from generate_series(900, 999) i)`,
        ),
    },
  ];
}
