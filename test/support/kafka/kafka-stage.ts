// A stage for what is big: a source with room for it, a Kafka cluster, and the compiled program as a process of its own between them, whose
// memory is measured from outside.

import { expect } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { slotName } from "../../../src/connector/connector-id.ts";
import { ApiClient, type JsonBody } from "../../../src/demo/api-client.ts";
import { pollUntil } from "../../../src/demo/poll-until.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { compiledBinary } from "../program/compiled-binary.ts";
import { type MemoryPeak, memoryPeakWhile } from "../program/process-memory.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import type { KafkaListener } from "./broker-properties.ts";
import { untilDurable } from "./fault-rig.ts";
import { KafkaCluster, type KafkaClusterOptions } from "./kafka-cluster.ts";

export type StateKind = "embedded" | "server";

export interface KafkaStageOptions {
  readonly cluster?: KafkaClusterOptions;
  readonly listener?: KafkaListener;
  /** Where the service keeps its state. */
  readonly state?: StateKind;
}

const settings = {
  fsync: "off",
  max_wal_size: "16GB",
  shared_buffers: "256MB",
  autovacuum: "off",
  max_locks_per_transaction: 512,
  wal_sender_timeout: "20s",
};
const poll = { timeoutMs: 900_000, intervalMs: 100 };
const database = "shop";
const id = "big";
const megabyte = 1024 * 1024;

export class KafkaStage implements AsyncDisposable {
  /** Everything that the status has said under `retry`. */
  readonly reasons = new Set<string>();
  /** The run has gone to `failed`, with this reason. */
  failure: string | null = null;

  private constructor(
    private readonly owned: AsyncDisposableStack,
    readonly source: PostgresServer,
    readonly cluster: KafkaCluster,
    readonly service: ServiceProcess,
    readonly api: ApiClient,
    private readonly listener: KafkaListener,
  ) {}

  static async start(options: KafkaStageOptions = {}): Promise<KafkaStage> {
    const { state = "server", listener = "PLAINTEXT" } = options;
    await using building = new AsyncDisposableStack();
    const binary = await compiledBinary();
    const source = building.use(await PostgresServer.start({ settings }));
    const cluster = building.use(await KafkaCluster.start(options.cluster));
    const directory = await mkdtemp(join(tmpdir(), "millrace-big-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    await source.createDatabase(database);
    await source.createDatabase("state");
    await source.query(
      "create table nudge (id int primary key, n int); insert into nudge values (1, 0)",
      database,
    );
    const service = building.use(
      await ServiceProcess.start({
        command: [binary],
        dataDirectory: join(directory, "data"),
        environment: {
          MILLRACE_LOG_LEVEL: "warn",
          ...(state === "server" ? { DATABASE_URL: urlOf(source.connection("state")) } : {}),
        },
      }),
    );
    return new KafkaStage(building.move(), source, cluster, service, new ApiClient(service.url), listener);
  }

  async write<R extends object>(sql: string): Promise<R[]> {
    return await this.source.query<R>(sql, database);
  }

  /** Creates a connector of all tables. `sink`: over what it has by default. */
  async create(connection: JsonBody = {}, sink: JsonBody = {}): Promise<void> {
    const postgres = {
      connection: this.source.connection(database),
      replication_type: { logical_replication: {} },
    };
    const kafka = {
      connection: { brokers: this.cluster.addresses(this.listener), ...connection },
      format: { native: {} },
      topic_options: { replication_factor: this.cluster.size },
      ...sink,
    };
    await this.api.createConnector(id, { source: { postgres }, sink: { kafka } });
    const watching = setInterval(() => void this.#look().catch(() => undefined), 250);
    this.owned.defer(() => clearInterval(watching));
  }

  async untilStreaming(): Promise<void> {
    await pollUntil("it streams", async () => (await this.#look()).realtime !== undefined, poll);
  }

  /** Resolves when all that is committed by now is durable at the sink. */
  async untilCarried(what: string, timeoutMs = poll.timeoutMs): Promise<void> {
    const asked = untilDurable((sql) => this.write(sql), slotName(id), what, timeoutMs);
    await asked.catch((error: unknown) => {
      throw new Error(
        `${error}; ${[...this.reasons].slice(-5).join("\n")}\n${this.service.log.slice(-3_000)}`,
      );
    });
  }

  /** Addresses in the source's log: up to where the connector's session was sent it, and up to where it is durable. Null: no session. */
  async sent(): Promise<{ readonly sent: bigint; readonly durable: bigint; readonly pid: number } | null> {
    const [found] = await this.write<{ sent: string; durable: string; pid: number }>(
      `select (sent_lsn - '0/0')::text as sent, (confirmed_flush_lsn - '0/0')::text as durable, pid
       from pg_stat_replication join pg_replication_slots on active_pid = pid where slot_name = '${slotName(id)}'`,
    );
    return found ? { sent: BigInt(found.sent), durable: BigInt(found.durable), pid: found.pid } : null;
  }

  async peakWhile(name: string, work: () => Promise<unknown>): Promise<MemoryPeak> {
    return await memoryPeakWhile(this.service.pid ?? 0, name, work);
  }

  async expectSmall(name: string, limitMegabytes: number, work: () => Promise<unknown>): Promise<void> {
    const { resident } = await this.peakWhile(name, work);
    expect(Math.round(resident / megabyte), `${name}: MB of the service`).toBeLessThan(limitMegabytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned[Symbol.asyncDispose]();
  }

  async #look() {
    const { status } = await this.api.connector(id);
    if (status.status.retry) this.reasons.add(status.status.retry.reason);
    this.failure = status.status.failed?.reason ?? null;
    if (this.failure !== null) throw new Error(`${this.failure}\n${this.service.log}`);
    return status.state;
  }
}

function urlOf({ host, port, user, password, database }: ReturnType<PostgresServer["connection"]>): string {
  const login = password ? `${user}:${encodeURIComponent(password)}` : user;
  return `postgres://${login}@${host}:${port}/${database}`;
}
