// The two servers of a benchmark and its tables: the same for every contender.

import { PostgresServer } from "../src/demo/postgres-server.ts";
import { tables } from "./bench-tables.ts";
import { readServerCpu } from "./process-usage.ts";

export const database = "bench";
/** Where the service keeps its state: what it takes of memory is then the service's, and not that of an embedded database. */
const stateDatabase = "bench_state";

/** Large enough that a checkpoint does not fall into one contender's time and not into the other's. */
const settings = {
  shared_buffers: "256MB",
  max_wal_size: "16GB",
  checkpoint_timeout: "1h",
  autovacuum: "off",
  max_worker_processes: 16,
  max_logical_replication_workers: 8,
};
/** Since version 16. */
const newSettings = { max_parallel_apply_workers_per_subscription: 2 };

/** What both servers have used so far. */
export interface ServerUsage {
  readonly sourceCpuSeconds: number;
  readonly sinkCpuSeconds: number;
  readonly sinkWalBytes: number;
}

export class BenchServers implements AsyncDisposable {
  private constructor(
    readonly source: PostgresServer,
    readonly sink: PostgresServer,
  ) {}

  /** `major`: of both; absent: the usual one. */
  static async start(major?: number): Promise<BenchServers> {
    await using building = new AsyncDisposableStack();
    const isOld = major !== undefined && major < 16;
    const options = {
      ...(major === undefined ? {} : { major }),
      settings: isOld ? settings : { ...settings, ...newSettings },
    };
    const source = building.use(await PostgresServer.start(options));
    const sink = building.use(await PostgresServer.start(options));
    building.move();
    return new BenchServers(source, sink);
  }

  /** Empty databases on both, with the empty tables at the source. */
  async renew(): Promise<void> {
    await empty(this.source);
    await this.source.query(tables, database);
    await this.renewSink();
  }

  /** An empty database at the sink. */
  async renewSink(): Promise<void> {
    await empty(this.sink);
  }

  /** An empty database for the state of a service that has not started; as a URL. */
  async renewState(): Promise<string> {
    await this.source.query(`drop database if exists ${stateDatabase} with (force)`);
    await this.source.createDatabase(stateDatabase);
    const { host, port, user, password } = this.source;
    return `postgres://${user}:${password}@${host}:${port}/${stateDatabase}`;
  }

  /** The same tables at the sink, for a contender that does not make them, and others like the first. */
  async createSinkTables(more: readonly string[] = []): Promise<void> {
    const others = more.map((name) => `create table ${name} (like bench including all)`);
    await this.sink.query([tables, ...others].join("; "), database);
  }

  /** The last row of a load: when it is at the sink, everything before it is. */
  async mark(): Promise<number> {
    const id = Date.now();
    await this.source.query(`insert into bench_marker values (${id})`, database);
    return id;
  }

  async usage(): Promise<ServerUsage> {
    const [row] = await this.sink.query<{ bytes: string }>(
      "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text as bytes",
    );
    return {
      sourceCpuSeconds: readServerCpu(this.source.pid ?? 0) ?? 0,
      sinkCpuSeconds: readServerCpu(this.sink.pid ?? 0) ?? 0,
      sinkWalBytes: Number(row?.bytes ?? 0),
    };
  }

  async version(): Promise<string> {
    const [row] = await this.source.query<{ server_version: string }>("show server_version");
    return row?.server_version ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source[Symbol.asyncDispose]();
    await this.sink[Symbol.asyncDispose]();
  }
}

async function empty(server: PostgresServer): Promise<void> {
  await server.query(`drop database if exists ${database} with (force)`);
  await server.createDatabase(database);
}
