// Everything that the demo needs: a Postgres server with a shop and an empty database, a webhook receiver, the service
// in its own process, and two connectors created through its API, or three. Disposal runs in the reverse order.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Client } from "pg";
import { ApiClient } from "./api-client.ts";
import { pollUntil } from "./poll-until.ts";
import { PostgresServer } from "./postgres-server.ts";
import { Receiver } from "./receiver.ts";
import { ownCommand, ServiceProcess } from "./service-process.ts";
import { createShop } from "./shop-tables.ts";

export const webhookConnector = "demo-webhook";
export const postgresConnector = "demo-postgres";
/** They are there in any case. */
export const connectorIds = [postgresConnector, webhookConnector] as const;
export const kafkaConnector = "demo-kafka";

const demoTopics = "millrace-demo.{schema}.{table}";
const sourceDatabase = "shop";
const sinkDatabase = "warehouse";
const deletionTimeoutMs = 15_000;

export interface StageOptions {
  readonly scale: number;
  /** Brokers of a Kafka cluster that is there, `host:port`: a third connector writes to it. Default: none. */
  readonly brokers?: readonly string[];
  readonly signal: AbortSignal;
  /** Called after each step of the set-up. */
  readonly announce: (step: string) => void;
  /** The command that runs the service. Default: this program. */
  readonly command?: readonly string[];
  /** The service's data directory. Default: a temporary one. */
  readonly dataDirectory?: string;
  /** Added to the service's environment. */
  readonly environment?: Readonly<Record<string, string>>;
}

export class DemoStage implements AsyncDisposable {
  private constructor(
    private readonly owned: AsyncDisposableStack,
    readonly server: PostgresServer,
    readonly receiver: Receiver,
    readonly service: ServiceProcess,
    readonly api: ApiClient,
    readonly rows: number,
    private readonly brokers: readonly string[] | null,
  ) {}

  get connectorIds(): readonly string[] {
    return [...connectorIds, ...(this.brokers ? [kafkaConnector] : [])];
  }

  /** Sets up everything except the connectors. When a step fails, it takes down what it had set up. */
  static async setUp(options: StageOptions): Promise<DemoStage> {
    const { scale, signal, announce } = options;
    await using building = new AsyncDisposableStack();
    const server = building.use(await PostgresServer.start());
    signal.throwIfAborted();
    const rows = await fillShop(server, scale);
    const [version] = await server.query<{ server_version: string }>("show server_version");
    announce(
      `Postgres ${version?.server_version} on port ${server.port}: ${rows.toLocaleString("en-US")} rows in 6 tables`,
    );
    signal.throwIfAborted();
    const receiver = building.use(Receiver.start());
    announce(`Webhook receiver on ${receiver.url}`);
    const directory = await mkdtemp(join(tmpdir(), "millrace-demo-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const service = building.use(await startService(directory, options));
    announce(`Service on ${service.url}, its state in a directory of its own`);
    signal.throwIfAborted();
    const api = new ApiClient(service.url);
    return new DemoStage(building.move(), server, receiver, service, api, rows, options.brokers ?? null);
  }

  /**
   * Creates the connectors through the API. They start at once. `ports` replaces the server's own port, for tests that
   * put a proxy in between.
   */
  async createConnectors(ports: { readonly source?: number; readonly sink?: number } = {}): Promise<void> {
    const { port } = this.server;
    const connection = { ...this.server.connection(sourceDatabase), port: ports.source ?? port };
    const source = { postgres: { connection, replication_type: { logical_replication: {} } } };
    const postgres = { connection: { ...this.server.connection(sinkDatabase), port: ports.sink ?? port } };
    const webhook = { url: this.receiver.url, path_template: "{schema}/{table}" };
    await this.api.createConnector(postgresConnector, { source, sink: { postgres } });
    await this.api.createConnector(webhookConnector, { source, sink: { webhook } });
    if (!this.brokers) return;
    const kafka = {
      connection: { brokers: this.brokers },
      format: { native: {} },
      topic_name_template: demoTopics,
      topic_options: {},
    };
    await this.api.createConnector(kafkaConnector, { source, sink: { kafka } });
  }

  /** Deletes the connectors through the API, and waits until they and their slots are gone. */
  async deleteConnectors(): Promise<void> {
    const existing = await Promise.all(this.connectorIds.map((id) => this.api.exists(id)));
    for (const [index, id] of this.connectorIds.entries())
      if (existing[index]) await this.api.deleteConnector(id);
    const options = { timeoutMs: deletionTimeoutMs, intervalMs: 100 };
    await pollUntil("the connectors are gone", async () => !(await this.#anyConnector()), options);
    await pollUntil("the slots are gone", async () => (await this.#slots()).length === 0, options);
  }

  connectToSource(): Promise<Client & AsyncDisposable> {
    return this.server.connect(sourceDatabase);
  }

  connectToSink(): Promise<Client & AsyncDisposable> {
    return this.server.connect(sinkDatabase);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned.disposeAsync();
  }

  async #anyConnector(): Promise<boolean> {
    const existing = await Promise.all(this.connectorIds.map((id) => this.api.exists(id)));
    return existing.includes(true);
  }

  #slots(): Promise<Record<string, unknown>[]> {
    return this.server.query("select slot_name from pg_replication_slots");
  }
}

async function fillShop(server: PostgresServer, scale: number): Promise<number> {
  await server.createDatabase(sourceDatabase);
  await server.createDatabase(sinkDatabase);
  await using client = await server.connect(sourceDatabase);
  return await createShop(client, scale);
}

async function startService(directory: string, options: StageOptions): Promise<ServiceProcess> {
  return await ServiceProcess.start({
    command: options.command ?? ownCommand(),
    dataDirectory: options.dataDirectory ?? join(directory, "data"),
    workingDirectory: directory,
    environment: { MILLRACE_LOG_LEVEL: "warn", ...options.environment },
  });
}
