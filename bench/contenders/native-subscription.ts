// Postgres' own logical replication, configured for speed: binary, with large transactions applied in parallel while
// they arrive.
// https://www.postgresql.org/docs/current/sql-createsubscription.html

import { pollUntil } from "../../src/demo/poll-until.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Contender } from "./contender.ts";

const poll = { timeoutMs: 600_000, intervalMs: 20 };

export class NativeSubscription implements Contender {
  readonly name = "postgres";

  constructor(
    private readonly servers: BenchServers,
    /** More tables of the source, with the columns of `bench`. */
    private readonly moreTables: readonly string[] = [],
  ) {}

  async begin(): Promise<void> {
    const { source, sink } = this.servers;
    await this.servers.createSinkTables(this.moreTables);
    await source.query("create publication bench for all tables", database);
    const connection = `host=${source.host} port=${source.port} user=${source.user} dbname=${database}`;
    const [version] = await sink.query<{ number: number }>(
      "select current_setting('server_version_num')::int4 as number",
    );
    const streaming = (version?.number ?? 0) < 160_000 ? "on" : "parallel";
    await sink.query(
      `create subscription bench connection '${connection}' publication bench with (binary = true, streaming = ${streaming})`,
      database,
    );
    await using client = await sink.connect(database);
    await pollUntil(
      "the tables are copied",
      async () => {
        const { rows } = await client.query<{ done: boolean }>(
          "select bool_and(srsubstate = 'r') as done from pg_subscription_rel",
        );
        return rows[0]?.done === true;
      },
      poll,
    );
  }

  async pause(): Promise<void> {
    await this.servers.sink.query("alter subscription bench disable", database);
    await pollUntil(
      "the walsender is gone",
      async () => {
        const rows = await this.servers.source.query("select from pg_replication_slots where active");
        return rows.length === 0;
      },
      poll,
    );
  }

  async resume(): Promise<void> {
    await this.servers.sink.query("alter subscription bench enable", database);
  }

  async untilMarkerArrives(marker: number): Promise<void> {
    await using client = await this.servers.sink.connect(database);
    await pollUntil(
      "the marker is at the sink",
      async () => {
        const { rowCount } = await client.query("select from bench_marker where id = $1", [marker]);
        return rowCount === 1;
      },
      poll,
    );
  }

  async end(): Promise<void> {
    await this.servers.sink.query("drop subscription if exists bench", database);
    await this.servers.source.query("drop publication if exists bench", database);
  }

  /** It runs inside both servers. */
  usage(): null {
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
