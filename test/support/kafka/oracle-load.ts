// Random transactions on the tables of the oracle over several sessions, which go on whatever happens to the source.

import type { Client } from "pg";
import type { PostgresServer } from "../servers/postgres-server.ts";

export interface OracleLoad extends AsyncDisposable {
  readonly transactions: number;
  /** May grow amid the load. */
  readonly tables: string[];
}

export interface LoadOptions {
  readonly database: string;
  readonly tables: string[];
  readonly sessions?: number;
  readonly pauseMs?: number;
  /** Of a table. */
  readonly keys?: number;
}

const pick = (below: number) => Math.floor(Math.random() * below);

function statement(tables: readonly string[], keys: number): string {
  const table = () => tables[pick(tables.length)]!;
  const one = table();
  const other = table();
  const id = () => 1 + pick(keys);
  const some = () => Array.from({ length: 1 + pick(5) }, id).join(",");
  const kinds = [
    () => `update ${one} set v = v + 1 where id in (${some()})`,
    () =>
      `update ${one} set v = v + 1, pad = repeat(md5(random()::text), ${pick(20)}) where id in (${some()})`,
    () => `insert into ${one} select i, 0, 0, 'new' from unnest(array[${some()}]) i on conflict do nothing`,
    () =>
      `insert into ${one} (id, n, v) values (${id()}, 0, 1) on conflict (id) do update set v = ${one}.v + 1`,
    () => `delete from ${one} where id in (${some()})`,
    () => {
      const to = id();
      return `update ${one} set id = ${to} where id = ${id()} and not exists (select from ${one} where id = ${to})`;
    },
    () => `update ${one} set v = v - 7 where id = ${id()}; update ${other} set v = v + 7 where id = ${id()}`,
    () => `delete from ${one} where id = ${keys}; insert into ${one} values (${keys}, 0, 5, 'again')`,
  ];
  return kinds[pick(kinds.length)]!();
}

function transaction(tables: readonly string[], keys: number): string {
  if (Math.random() < 0.02) {
    const from = pick(keys);
    return `update ${tables[pick(tables.length)]} set v = v + 1 where id between ${from} and ${from + 20 + pick(980)}`;
  }
  return Array.from({ length: 1 + pick(4) }, () => statement(tables, keys)).join("; ");
}

export function oracleLoad(server: PostgresServer, options: LoadOptions): OracleLoad {
  const { database, tables, sessions = 3, pauseMs = 5, keys = 2_000 } = options;
  const over = new AbortController();
  let transactions = 0;
  const work = async () => {
    let client: (Client & AsyncDisposable) | null = null;
    while (!over.signal.aborted) {
      try {
        client ??= await server.connect(database);
        await client.query(`begin; set local lock_timeout = '2s'; ${transaction(tables, keys)}; commit`);
        transactions++;
        await Bun.sleep(pauseMs);
      } catch {
        await client?.query("rollback").catch(() => {
          client?.end().catch(() => {});
          client = null;
        });
        await Bun.sleep(20);
      }
    }
    await client?.end().catch(() => {});
  };
  const working = Promise.all(Array.from({ length: sessions }, work));
  return {
    tables,
    get transactions() {
      return transactions;
    },
    async [Symbol.asyncDispose]() {
      over.abort();
      await working;
    },
  };
}
