// A connector's live run into a Postgres sink that is going to refuse something: between a database of one server and one of
// another, as locks at the sink would keep slots from being made.

import type { Client } from "pg";
import type { PostgresConnectionRequest } from "../../../src/connector/config/connection.ts";
import type { PostgresServerOptions } from "../../../src/demo/postgres-server.ts";
import { dropMeanwhile } from "../drop-meanwhile.ts";
import { LiveRun } from "../runtime/live-run.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";

export interface RefusalOptions {
  /** Of the sink. */
  readonly connection?: Partial<PostgresConnectionRequest>;
  /** Run at the sink before anything else. */
  readonly before?: string;
  readonly migration?: { readonly allowed: [] };
  /** Larger transactions come in pieces. */
  readonly bufferedRows?: number;
  /** The run does not get as far as the stream. */
  readonly isRefusedAtOnce?: boolean;
}

export class RefusalRig implements AsyncDisposable {
  /** Of connectors so far; the next one's databases bear the next number. */
  count = 0;

  private constructor(
    readonly source: PostgresServer,
    readonly sink: PostgresServer,
  ) {}

  static async start(sinkOptions: PostgresServerOptions = {}): Promise<RefusalRig> {
    const settings = { fsync: "off", max_replication_slots: "40", max_wal_senders: "40" };
    const [source, sink] = await Promise.all([
      PostgresServer.start({ settings }),
      PostgresServer.start({ ...sinkOptions, settings: { ...settings, ...sinkOptions.settings } }),
    ]);
    return new RefusalRig(source, sink);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source[Symbol.asyncDispose]();
    await this.sink[Symbol.asyncDispose]();
  }

  /** A connector that streams `tables`, and table `other`. */
  async setUp(tables: string, options: RefusalOptions = {}) {
    const id = `refusal${++this.count}`;
    const { source: sourceServer, sink: server } = this;
    const from = `${id}_source`;
    await using building = new AsyncDisposableStack();
    await sourceServer.createDatabase(from);
    await server.createDatabase(id);
    await sourceServer.query(`${tables}; create table other (id int primary key)`, from);
    if (options.before) await server.query(options.before, id);
    const run = building.use(
      LiveRun.start({
        id,
        source: {
          postgres: {
            connection: sourceServer.connection(from),
            replication_type: { logical_replication: {} },
          },
        },
        sink: {
          postgres: {
            connection: { ...server.connection(id), ...options.connection },
            ...(options.migration ? { migration_strategy: options.migration } : {}),
          },
        },
        limits: { cdc: { max_buffer_rows: options.bufferedRows ?? 0 } },
      }),
    );
    if (!options.isRefusedAtOnce) await run.untilRealtime();
    const owned = building.move();
    return {
      run,
      /** At the sink. */
      database: id,
      source: (sql: string) => sourceServer.query(sql, from),
      sink: <Row extends object>(sql: string) => server.query<Row>(sql, id),
      connectSink: (): Promise<Client & AsyncDisposable> => server.connect(id),
      /** The reason that the status shows, seen again and again over attempts. */
      async refusal(): Promise<string> {
        const shown = () => run.failures.length >= 2 && run.status?.status.retry?.reason;
        return await waitFor("the second refusal in the status", shown, { timeoutMs: 60_000 });
      },
      async goesOn(): Promise<void> {
        const sql = "select string_agg(t::text, ' ' order by id) as rows from t";
        const isEqual = async () =>
          Bun.deepEquals(await server.query(sql, id), await sourceServer.query(sql, from));
        await waitFor("the sink to equal the source", isEqual, { timeoutMs: 60_000 });
        await waitFor("a status without the refusal", () => run.status?.status.retry === undefined, {
          timeoutMs: 20_000,
        });
      },
      async [Symbol.asyncDispose]() {
        await owned.disposeAsync();
        dropMeanwhile(sourceServer, from);
        dropMeanwhile(server, id);
      },
    };
  }
}
