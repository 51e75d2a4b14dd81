// The two servers of a benchmark and its table: the same for every contender.

import { PostgresServer } from "../src/demo/postgres-server.ts";

export const database = "bench";

/** Large enough that a checkpoint does not fall into one contender's time and not into the other's. */
const settings = {
  shared_buffers: "256MB",
  max_wal_size: "16GB",
  checkpoint_timeout: "1h",
  autovacuum: "off",
  max_worker_processes: 16,
  max_logical_replication_workers: 8,
  max_parallel_apply_workers_per_subscription: 2,
};

const tables = `
  create table bench (
    id bigint primary key, number int, label text, at timestamptz, amount numeric, token uuid, flag bool
  );
  create table bench_marker (id bigint primary key)`;

export const columns = `i, i % 1000, md5(i::text), timestamptz '2025-01-01' + i * interval '1 ms', i / 7.0,
  md5(i::text)::uuid, i % 2 = 0`;

export class BenchServers implements AsyncDisposable {
  private constructor(
    readonly source: PostgresServer,
    readonly sink: PostgresServer,
  ) {}

  static async start(): Promise<BenchServers> {
    await using building = new AsyncDisposableStack();
    const source = building.use(await PostgresServer.start({ settings }));
    const sink = building.use(await PostgresServer.start({ settings }));
    building.move();
    return new BenchServers(source, sink);
  }

  /** Empty databases on both, with the empty table at the source. */
  async renew(): Promise<void> {
    for (const server of [this.source, this.sink]) {
      await server.query(`drop database if exists ${database} with (force)`);
      await server.createDatabase(database);
    }
    await this.source.query(tables, database);
  }

  /** The same tables at the sink, for a contender that does not make them. */
  async createSinkTables(): Promise<void> {
    await this.sink.query(tables, database);
  }

  /** The last row of a load: when it is at the sink, everything before it is. */
  async mark(): Promise<number> {
    const id = Date.now();
    await this.source.query(`insert into bench_marker values (${id})`, database);
    return id;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source[Symbol.asyncDispose]();
    await this.sink[Symbol.asyncDispose]();
  }
}
