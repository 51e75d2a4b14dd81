// Several replicas of the built program over one state, with connectors from a source to Postgres and to a receiver.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { Receiver } from "../../../src/demo/receiver.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { compiledBinary } from "../program/compiled-binary.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";

export const database = "shop";

export interface Replica {
  readonly name: string;
  readonly service: ServiceProcess;
  readonly api: ApiClient;
}

export class ReplicaStage implements AsyncDisposable {
  readonly replicas: Replica[] = [];

  private constructor(
    private readonly owned: AsyncDisposableStack,
    private readonly directory: string,
    private readonly command: readonly string[],
    readonly state: PostgresServer,
    /** Source and sink: each connector writes into a database of its own. */
    readonly server: PostgresServer,
    readonly receiver: Receiver,
  ) {}

  static async start(): Promise<ReplicaStage> {
    await using building = new AsyncDisposableStack();
    const [binary, state, server] = await Promise.all([
      compiledBinary(),
      PostgresServer.start({ settings: { fsync: "off" } }),
      PostgresServer.start({
        settings: { fsync: "off", max_replication_slots: "40", max_wal_senders: "40" },
      }),
    ]);
    building.use(state);
    building.use(server);
    await server.createDatabase(database);
    await server.query("create table orders (id bigint primary key, v text)", database);
    const receiver = building.use(Receiver.start());
    const directory = await mkdtemp(join(tmpdir(), "millrace-replicas-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const stage = new ReplicaStage(building.move(), directory, [binary], state, server, receiver);
    return stage;
  }

  /** One more replica. Its name is its id. */
  async join(name: string, environment: Readonly<Record<string, string>> = {}): Promise<Replica> {
    const replica = await this.spawn(name, environment);
    await replica.service.untilReady();
    return replica;
  }

  /** As `join`, without waiting until it is ready. */
  async spawn(name: string, environment: Readonly<Record<string, string>> = {}): Promise<Replica> {
    const service = this.owned.use(
      await ServiceProcess.spawn({
        command: this.command,
        workingDirectory: this.directory,
        dataDirectory: join(this.directory, name),
        environment: {
          DATABASE_URL: `postgres://postgres@127.0.0.1:${this.state.port}/postgres`,
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
          MILLRACE_REPLICA_ID: name,
          ...environment,
        },
      }),
    );
    const replica = { name, service, api: new ApiClient(service.url) };
    this.replicas.push(replica);
    return replica;
  }

  /** Of every connector. */
  source() {
    return {
      postgres: {
        connection: this.server.connection(database),
        replication_type: { logical_replication: {} },
        catalog: { name: database, default_action: "Include" },
      },
    };
  }

  /** Returns its path. */
  async writeFile(name: string, content: unknown): Promise<string> {
    const path = join(this.directory, name);
    await Bun.write(path, JSON.stringify(content));
    return path;
  }

  /** A connector into a database of its name. */
  async toPostgres({ api }: Replica, id: string): Promise<void> {
    await this.server.createDatabase(id);
    const sink = { postgres: { connection: this.server.connection(id) } };
    await api.createConnector(id, { source: this.source(), sink });
  }

  async toWebhook({ api }: Replica, id: string): Promise<void> {
    await api.createConnector(id, {
      source: this.source(),
      sink: { webhook: { url: this.receiver.url } },
    });
  }

  /** Of every connector that this replica shows, the replica that runs it. */
  async holders({ api }: Replica): Promise<ReadonlyMap<string, string | undefined>> {
    const { connectors } = await api.call<{
      connectors: { connector: { id: string }; status: { replica?: string } }[];
    }>("GET", "/api/v1/connectors");
    return new Map(connectors.map(({ connector, status }) => [connector.id, status.replica]));
  }

  async untilStreaming({ api }: Replica, ids: readonly string[], timeoutMs = 30_000): Promise<void> {
    for (const id of ids) {
      await waitFor(`${id} to stream`, async () => (await api.connector(id)).status.state.realtime, {
        timeoutMs,
      });
    }
  }

  /** Writes a row, and waits until it is in the connector's database. Returns the milliseconds. */
  async passRow(id: string, timeoutMs = 30_000): Promise<number> {
    const row = Date.now() * 1_000 + Math.floor(Math.random() * 1_000);
    const from = performance.now();
    await this.server.query(`insert into orders values (${row}, 'x')`, database);
    const there = () => this.server.query(`select from orders where id = ${row}`, id);
    await waitFor(`the row at ${id}`, async () => (await there()).length === 1, { timeoutMs });
    return performance.now() - from;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned.disposeAsync();
  }
}
