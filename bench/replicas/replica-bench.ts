// Several replicas over one state server that is measured, for the benchmarks of replicas.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient, type JsonBody } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { meteredSettings, StateMeter } from "./state-meter.ts";

const stateDatabase = "state";
/** To list thousands of connectors keeps a replica busy. */
const poll = { timeoutMs: 300_000, intervalMs: 3_000 };
/** Requests at one time, when connectors are made. */
const atOnce = 8;

export interface BenchReplica {
  readonly name: string;
  readonly service: ServiceProcess;
  readonly api: ApiClient;
}

export interface NewConnector {
  readonly id: string;
  readonly source: JsonBody;
  readonly sink: JsonBody;
}

interface Listed {
  readonly connectors: readonly {
    readonly connector: { readonly id: string };
    readonly status: { readonly state: object; readonly replica?: string };
  }[];
}

export class ReplicaBench implements AsyncDisposable {
  readonly meter: StateMeter;

  private constructor(
    private readonly owned: AsyncDisposableStack,
    readonly replicas: readonly BenchReplica[],
    state: PostgresServer,
  ) {
    this.meter = new StateMeter(state, stateDatabase);
  }

  /** `command`: runs the service. `onLine`: hears its log; without, what is wrong goes to this process's own. */
  static async start(
    command: readonly string[],
    count: number,
    onLine?: (line: string) => void,
  ): Promise<ReplicaBench> {
    await using building = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "millrace-replicas-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const state = building.use(await PostgresServer.start({ settings: meteredSettings }));
    await state.createDatabase(stateDatabase);
    const { host, port, user, password } = state;
    const replicas: BenchReplica[] = [];
    for (let i = 0; i < count; i++) {
      const name = `replica-${i}`;
      const service = await ServiceProcess.start({
        command,
        dataDirectory: join(directory, name),
        onLine: onLine ?? ((line) => console.error(name, line)),
        environment: {
          DATABASE_URL: `postgres://${user}:${password}@${host}:${port}/${stateDatabase}`,
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
          MILLRACE_REPLICA_ID: name,
          MILLRACE_LOG_LEVEL: onLine ? "info" : "warn",
        },
      });
      building.use(service);
      replicas.push({ name, service, api: new ApiClient(service.url) });
    }
    const bench = new ReplicaBench(building.move(), replicas, state);
    await bench.meter.prepare();
    return bench;
  }

  /** Makes the connectors, and waits until all run, evenly spread. */
  async create(connectors: readonly NewConnector[]): Promise<void> {
    const left = [...connectors];
    const work = async (at: number) => {
      for (let next = left.shift(); next; next = left.shift()) {
        const { id, ...connector } = next;
        await this.#at(at).createConnector(id, connector);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, (_, at) => work(at)));
    await pollUntil("all connectors stream, evenly spread", () => this.#areSettled(), poll);
  }

  /** By connector, the replica that holds it, as one replica shows it. */
  async holders(at = 0): Promise<ReadonlyMap<string, string | undefined>> {
    const listed = await this.#list(at);
    return new Map(listed.map(({ connector, status }) => [connector.id, status.replica]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.owned.disposeAsync();
  }

  async #areSettled(): Promise<boolean> {
    const listed = await this.#list(0);
    const counts = this.replicas.map(
      ({ name }) => listed.filter(({ status }) => status.replica === name).length,
    );
    const isEven = Math.max(...counts) - Math.min(...counts) <= 1;
    return isEven && listed.every(({ status }) => "realtime" in status.state);
  }

  async #list(at: number): Promise<Listed["connectors"]> {
    return (await this.#at(at).call<Listed>("GET", "/api/v1/connectors")).connectors;
  }

  #at(index: number): ApiClient {
    return this.replicas[index % this.replicas.length]!.api;
  }
}
