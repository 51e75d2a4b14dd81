// What the state's server does in a while: transactions, write-ahead log, rows by table, statements, CPU.

import type { Client } from "pg";
import type { PostgresServer } from "../../src/demo/postgres-server.ts";
import { readServerCpu } from "../measure/process-usage.ts";

/** Settings of a server that is measured. */
export const meteredSettings = {
  shared_preload_libraries: "pg_stat_statements",
  "pg_stat_statements.track": "all",
  "pg_stat_statements.max": 1000,
  max_connections: 100,
};

export interface TableWrites {
  readonly table: string;
  /** Inserted, updated and deleted. */
  readonly rows: number;
  /** Updates that touch no index. */
  readonly hot: number;
}

export interface StatementLoad {
  readonly text: string;
  readonly calls: number;
  readonly ms: number;
}

/** Each figure in a second, but for the share of a core. */
export interface StateLoad {
  readonly transactions: number;
  readonly statements: number;
  readonly walBytes: number;
  /** How often the log was flushed. */
  readonly walSyncs: number;
  readonly cpu: number;
  readonly tables: readonly TableWrites[];
  /** The dearest first. */
  readonly costly: readonly StatementLoad[];
}

interface Counters {
  readonly transactions: number;
  readonly walBytes: number;
  readonly walSyncs: number;
  readonly tables: readonly TableWrites[];
}

/** Sessions tell what they have done about once a second. */
const statisticsMs = 1_500;

export class StateMeter {
  constructor(
    private readonly server: PostgresServer,
    private readonly database: string,
  ) {}

  /** Makes what it needs. */
  async prepare(): Promise<void> {
    await this.server.query("create extension if not exists pg_stat_statements", "postgres");
  }

  /** Measures while `work` goes on. */
  async during(work: () => Promise<unknown>): Promise<StateLoad> {
    await this.server.query("select pg_stat_statements_reset()");
    const before = await this.#counters();
    const cpuBefore = this.#cpu();
    const startedMs = performance.now();
    await work();
    const seconds = (performance.now() - startedMs) / 1_000;
    const cpu = (this.#cpu() - cpuBefore) / seconds;
    const costly = await this.#statements();
    await Bun.sleep(statisticsMs);
    const after = await this.#counters();
    const rate = (count: number) => count / seconds;
    return {
      cpu,
      transactions: rate(after.transactions - before.transactions),
      walBytes: rate(after.walBytes - before.walBytes),
      walSyncs: rate(after.walSyncs - before.walSyncs),
      statements: rate(costly.reduce((sum, { calls }) => sum + calls, 0)),
      tables: difference(after.tables, before.tables).map(({ table, rows, hot }) => ({
        table,
        rows: rate(rows),
        hot: rate(hot),
      })),
      costly: costly.map(({ text, calls, ms }) => ({ text, calls: rate(calls), ms: rate(ms) })),
    };
  }

  #cpu(): number {
    return readServerCpu(this.server.pid ?? 0) ?? 0;
  }

  async #counters(): Promise<Counters> {
    const [row] = await this.#ask<Omit<Counters, "tables">>(`
      select (select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = $1) as transactions,
        wal_bytes::float8 as "walBytes", wal_sync::float8 as "walSyncs" from pg_stat_wal`);
    const tables = await this.server.query<TableWrites>(
      `select relname as table, (n_tup_ins + n_tup_upd + n_tup_del)::float8 as rows, n_tup_hot_upd::float8 as hot
       from pg_stat_user_tables order by relname`,
      this.database,
    );
    return { transactions: 0, walBytes: 0, walSyncs: 0, ...row, tables };
  }

  async #statements(): Promise<StatementLoad[]> {
    return await this.#ask<StatementLoad>(`
      select s.query as text, s.calls::float8 as calls, s.total_exec_time as ms
      from pg_stat_statements s join pg_database d on d.oid = s.dbid
      where d.datname = $1 and s.toplevel and s.query not like '%pg_stat_%' order by s.total_exec_time desc`);
  }

  /** By a session in another database, which is not measured. */
  async #ask<Row extends object>(sql: string): Promise<Row[]> {
    const ask = async (client: Client) => (await client.query<Row>(sql, [this.database])).rows;
    return await this.server.with("postgres", ask);
  }
}

function difference(after: readonly TableWrites[], before: readonly TableWrites[]): readonly TableWrites[] {
  const earlier = new Map(before.map((writes) => [writes.table, writes]));
  return after
    .map(({ table, rows, hot }) => {
      const { rows: rowsBefore = 0, hot: hotBefore = 0 } = earlier.get(table) ?? {};
      return { table, rows: rows - rowsBefore, hot: hot - hotBefore };
    })
    .filter(({ rows }) => rows > 0);
}
