// millrace as its users run it: the service in a separate process, controlled through its API, with a Postgres or a
// webhook sink.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient, type JsonBody } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Usage } from "../measure/process-usage.ts";
import { ServiceLog } from "../measure/service-log.ts";
import { UsageMeter } from "../measure/usage-meter.ts";
import type { Contender, ContenderName } from "./contender.ts";

const poll = { timeoutMs: 600_000, intervalMs: 20 };
const connectorId = "bench";

/** What the service replicates to. */
export interface Target extends AsyncDisposable {
  readonly name: ContenderName;
  readonly sink: JsonBody;
  readonly limits?: JsonBody;
  /** Of the source; absent: everything is included. */
  readonly catalog?: JsonBody;
  hasMarker(marker: number): Promise<boolean>;
}

export class MillraceService implements Contender {
  readonly #meter = new UsageMeter();

  private constructor(
    private readonly servers: BenchServers,
    private readonly target: Target,
    private readonly service: ServiceProcess,
    private readonly log: ServiceLog,
    private readonly directory: string,
    private readonly api: ApiClient,
  ) {}

  static async start(
    servers: BenchServers,
    target: Target,
    command: readonly string[],
  ): Promise<MillraceService> {
    const directory = await mkdtemp(join(tmpdir(), "millrace-bench-"));
    const log = new ServiceLog();
    const service = await ServiceProcess.start({
      command,
      dataDirectory: directory,
      onLine: log.read,
      environment: { MILLRACE_LOG_LEVEL: "info", ...(await servers.recreateState()) },
    });
    return new MillraceService(servers, target, service, log, directory, new ApiClient(service.url));
  }

  get name(): ContenderName {
    return this.target.name;
  }

  async begin(): Promise<void> {
    const connection = this.servers.source.connection(database);
    const replication = { logical_replication: {} };
    const streams = this.log.untilStreaming();
    streams.catch(() => {});
    await this.api.createConnector(connectorId, {
      source: {
        postgres: {
          connection,
          replication_type: replication,
          ...(this.target.catalog ? { catalog: this.target.catalog } : {}),
        },
      },
      sink: this.target.sink,
      ...(this.target.limits ? { limits: this.target.limits } : {}),
    });
    await streams.catch((error: Error) => this.#throw(error.message));
  }

  async pause(): Promise<void> {
    await this.api.command(connectorId, "Stop");
    await pollUntil(
      "the run is over",
      async () => {
        const rows = await this.servers.source.query("select from pg_replication_slots where active");
        return rows.length === 0;
      },
      poll,
    );
  }

  async resume(): Promise<void> {
    await this.api.command(connectorId, "Start");
  }

  async untilMarkerArrives(marker: number): Promise<void> {
    const isDue = oncePerSecond();
    const isThere = async () => {
      if (await this.target.hasMarker(marker)) return true;
      if (isDue()) await this.#throwIfFailed();
      return false;
    };
    await pollUntil("the marker arrived", isThere, poll);
  }

  async end(): Promise<void> {
    await this.api.deleteConnector(connectorId);
    await pollUntil("the connector is gone", async () => !(await this.api.exists(connectorId)), poll);
  }

  usage(): Usage | null {
    return this.#meter.read(this.service.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.stop();
    await this.target[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #throwIfFailed() {
    const { status } = await this.api.connector(connectorId);
    if (status.status.failed) this.#throw(status.status.failed.reason);
  }

  #throw(reason: string): never {
    throw new Error(`${this.name}: ${reason}\n${this.service.log}`);
  }
}

/** Limits status requests: each takes CPU of the service and of its state's server, and both are measured. */
function oncePerSecond(): () => boolean {
  let lastMs = performance.now();
  return () => {
    const isLate = performance.now() - lastMs > 1_000;
    if (isLate) lastMs = performance.now();
    return isLate;
  };
}
