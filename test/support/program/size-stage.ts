// A stage for what is large or many: two servers with room for it, the compiled program as a process of its own, and a receiver
// of webhooks that throws them away. Memory is measured from outside.

import { expect } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { webhookTarget } from "../../../bench/contenders/targets.ts";
import { ApiClient, type JsonBody } from "../../../src/demo/api-client.ts";
import { pollUntil } from "../../../src/demo/poll-until.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { compiledBinary } from "./compiled-binary.ts";
import { type MemoryPeak, memoryPeakWhile } from "./process-memory.ts";

/** What the service may take, whatever it carries. */
export const memoryLimit = 512 * 1024 * 1024;

export type SinkKind = "postgres" | "webhook";

const settings = {
  fsync: "off",
  max_wal_size: "16GB",
  shared_buffers: "256MB",
  autovacuum: "off",
  max_connections: 900,
  max_wal_senders: 250,
  max_replication_slots: 250,
  max_locks_per_transaction: 512,
};
const poll = { timeoutMs: 900_000, intervalMs: 100 };
const database = "size";

export class SizeStage implements AsyncDisposable {
  #owned = new AsyncDisposableStack();
  #markers = 0;

  private constructor(
    readonly source: PostgresServer,
    private readonly target: PostgresServer,
    private readonly receiver: Awaited<ReturnType<typeof webhookTarget>>,
    readonly service: ServiceProcess,
    readonly api: ApiClient,
  ) {}

  static async start(): Promise<SizeStage> {
    await using building = new AsyncDisposableStack();
    const binary = await compiledBinary();
    const source = building.use(await PostgresServer.start({ settings }));
    const target = building.use(await PostgresServer.start({ settings }));
    const receiver = building.use(await webhookTarget());
    const directory = await mkdtemp(join(tmpdir(), "millrace-size-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const service = building.use(
      await ServiceProcess.start({
        command: [binary],
        dataDirectory: join(directory, "data"),
        environment: { MILLRACE_LOG_LEVEL: "warn" },
      }),
    );
    for (const server of [source, target]) await server.createDatabase(database);
    await source.query("create table bench_marker (id bigint primary key)", database);
    const stage = new SizeStage(source, target, receiver, service, new ApiClient(service.url));
    stage.#owned = building.move();
    return stage;
  }

  write(sql: string): Promise<object[]> {
    return this.source.query(sql, database);
  }

  atSink<Row extends object>(sql: string): Promise<Row[]> {
    return this.target.query<Row>(sql, database);
  }

  /** `webhook`: keys of a webhook beside its own. */
  sinkConfig(kind: SinkKind, webhook: JsonBody = {}): JsonBody {
    return kind === "webhook"
      ? { webhook: { ...(this.receiver.sink.webhook as JsonBody), ...webhook } }
      : { postgres: { connection: this.target.connection(database) } };
  }

  /** Creates a connector of all tables, or of `tables`. */
  async create(
    id: string,
    kind: SinkKind,
    tables?: readonly string[],
    sink = this.sinkConfig(kind),
  ): Promise<void> {
    const included = tables?.map((name) => ({ name, action: "Include", columns: [] }));
    const schemas = [{ name: "public", action: "Exclude", tables: included }];
    const catalog = included ? { catalog: { name: database, default_action: "Exclude", schemas } } : {};
    const connection = this.source.connection(database);
    const source = { postgres: { connection, replication_type: { logical_replication: {} }, ...catalog } };
    await this.api.createConnector(id, { source, sink });
  }

  async untilStreaming(...ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      await pollUntil(`${id} streams`, async () => (await this.#state(id)).realtime !== undefined, poll);
    }
  }

  /** Waits until everything written before is at the sinks of these kinds. */
  async untilCarried(...kinds: readonly SinkKind[]): Promise<void> {
    const marker = Date.now() * 100 + ++this.#markers;
    await this.write(`insert into bench_marker values (${marker})`);
    for (const kind of kinds)
      await pollUntil(`all is at the ${kind} sink`, () => this.#hasMarker(kind, marker), poll);
  }

  async peakWhile(name: string, work: () => Promise<unknown>): Promise<MemoryPeak> {
    return await memoryPeakWhile(this.service.pid ?? 0, name, work);
  }

  /** As `peakWhile`, and fails above the limit. */
  async expectSmall(name: string, work: () => Promise<unknown>): Promise<void> {
    const { resident } = await this.peakWhile(name, work);
    expect(resident, `${name}: resident memory of the service`).toBeLessThan(memoryLimit);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }

  async #hasMarker(kind: SinkKind, marker: number): Promise<boolean> {
    if (kind === "webhook") return await this.receiver.hasMarker(marker);
    const rows = await this.atSink(`select from bench_marker where id = ${marker}`).catch(() => []);
    return rows.length === 1;
  }

  async #state(id: string) {
    const { status } = await this.api.connector(id);
    if (status.status.failed) throw new Error(`${id}: ${status.status.failed.reason}\n${this.service.log}`);
    return status.state;
  }
}
