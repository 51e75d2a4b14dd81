// The set-up in which the idle service is measured: two servers, a receiver, and new state for each service.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient, type JsonBody } from "../src/demo/api-client.ts";
import { pollUntil } from "../src/demo/poll-until.ts";
import { PostgresServer } from "../src/demo/postgres-server.ts";
import { ServiceProcess } from "../src/demo/service-process.ts";
import { webhookTarget } from "./contenders/targets.ts";

export type StateKind = "embedded" | "postgres";
export type SinkKind = "postgres" | "webhook";

/** Where a service keeps its state. */
export interface StateLocation {
  readonly dataDirectory: string;
  readonly environment: Readonly<Record<string, string>>;
}

const database = "cost";
const settings = { max_connections: 900, max_wal_senders: 250, max_replication_slots: 250 };
const poll = { timeoutMs: 300_000, intervalMs: 500 };

export class CostStage implements AsyncDisposable {
  #owned = new AsyncDisposableStack();
  #states = 0;
  #connectors = 0;

  private constructor(
    private readonly binary: string,
    private readonly directory: string,
    private readonly source: PostgresServer,
    private readonly target: PostgresServer,
    private readonly webhook: JsonBody,
  ) {}

  static async start(binary: string): Promise<CostStage> {
    await using building = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "millrace-cost-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const source = building.use(await PostgresServer.start({ settings }));
    const target = building.use(await PostgresServer.start({ settings }));
    const receiver = building.use(await webhookTarget());
    for (const server of [source, target]) await server.createDatabase(database);
    await source.query("create table items (id int primary key, name text)", database);
    const stage = new CostStage(binary, directory, source, target, receiver.sink);
    stage.#owned = building.move();
    return stage;
  }

  async newState(kind: StateKind): Promise<StateLocation> {
    const name = `state_${this.#states++}`;
    const dataDirectory = join(this.directory, name);
    if (kind === "embedded") return { dataDirectory, environment: {} };
    await this.target.createDatabase(name);
    const { host, port, user, password } = this.target;
    return {
      dataDirectory,
      environment: { DATABASE_URL: `postgres://${user}:${password}@${host}:${port}/${name}` },
    };
  }

  /** Starts the service and waits until it is ready. */
  serve({ dataDirectory, environment }: StateLocation): Promise<ServiceProcess> {
    return ServiceProcess.start({
      command: [this.binary],
      dataDirectory,
      workingDirectory: this.directory,
      environment: { MILLRACE_LOG_LEVEL: "warn", ...environment },
    });
  }

  /** Creates one connector for each entry of `sinks`, and waits until all of them stream. */
  async connect({ url }: ServiceProcess, sinks: readonly SinkKind[]): Promise<void> {
    const api = new ApiClient(url);
    const postgres = {
      connection: this.source.connection(database),
      replication_type: { logical_replication: {} },
    };
    // Connectors need new names: the slots of an earlier service still exist under the names of its connectors.
    const named = sinks.map((kind) => ({ kind, id: `c${this.#connectors++}` }));
    for (const { kind, id } of named)
      await api.createConnector(id, { source: { postgres }, sink: this.#sink(kind, id) });
    const streams = async (id: string) => (await api.connector(id)).status.state.realtime !== undefined;
    const allStream = async () => (await Promise.all(named.map(({ id }) => streams(id)))).every(Boolean);
    await pollUntil("all connectors stream", allStream, poll);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  #sink(kind: SinkKind, id: string): JsonBody {
    if (kind === "webhook") return this.webhook;
    return { postgres: { connection: this.target.connection(database), target_schema: `copy_${id}` } };
  }
}
