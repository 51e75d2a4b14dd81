// The source and sink servers of a benchmark, with its tables. Every contender runs on the same two servers.

import { PostgresServer } from "../src/demo/postgres-server.ts";
import { tables } from "./bench-tables.ts";
import { readServerCpu } from "./measure/process-usage.ts";

export const database = "bench";
const stateDatabase = "bench_state";

/** Checkpoints are rare, so that none falls into the measurement of only some contenders. */
const settings = {
  shared_buffers: "256MB",
  max_wal_size: "16GB",
  checkpoint_timeout: "1h",
  autovacuum: "off",
  max_worker_processes: 16,
  max_logical_replication_workers: 8,
};
/** Settings that servers before version 16 do not know. */
const settingsSince16 = { max_parallel_apply_workers_per_subscription: 2 };

/** What both servers have used since their start. */
export interface ServerUsage {
  readonly sourceCpuSeconds: number;
  readonly sinkCpuSeconds: number;
  readonly sinkWalBytes: number;
}

export class BenchServers implements AsyncDisposable {
  private constructor(
    readonly source: PostgresServer,
    readonly sink: PostgresServer,
    private readonly isStateEmbedded: boolean,
  ) {}

  /**
   * `major`: the version of both servers. Default: any, with 17 preferred. `isStateEmbedded`: the service's memory includes a database's.
   */
  static async start(major?: number, isStateEmbedded = false): Promise<BenchServers> {
    await using building = new AsyncDisposableStack();
    const isOld = major !== undefined && major < 16;
    const options = {
      ...(major === undefined ? {} : { major }),
      settings: isOld ? settings : { ...settings, ...settingsSince16 },
    };
    const source = building.use(await PostgresServer.start(options));
    const sink = building.use(await PostgresServer.start(options));
    building.move();
    return new BenchServers(source, sink, isStateEmbedded);
  }

  /** Recreates both databases, with empty tables at the source. */
  async recreate(): Promise<void> {
    await empty(this.source);
    await this.source.query(tables, database);
    await this.recreateSink();
  }

  /** Recreates the sink's database. */
  async recreateSink(): Promise<void> {
    await empty(this.sink);
  }

  /** Recreates the state's database, which no service may be using. Returns the variables that a service is to have. */
  async recreateState(): Promise<{ readonly DATABASE_URL?: string }> {
    if (this.isStateEmbedded) return {};
    await this.source.query(`drop database if exists ${stateDatabase} with (force)`);
    await this.source.createDatabase(stateDatabase);
    const { host, port, user, password } = this.source;
    return { DATABASE_URL: `postgres://${user}:${password}@${host}:${port}/${stateDatabase}` };
  }

  /**
   * Creates the same tables at the sink, plus copies of `bench` under other names, for contenders that do not create
   * tables.
   */
  async createSinkTables(more: readonly string[] = []): Promise<void> {
    const others = more.map((name) => `create table ${name} (like bench including all)`);
    await this.sink.query([tables, ...others].join("; "), database);
  }

  /** Writes a load's last row. Once it is at the sink, so is everything before it. */
  async writeMarker(): Promise<number> {
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
