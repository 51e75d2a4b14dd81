// Several replicas of the compiled program over one state, with connectors from one source to two databases, to a receiver, and to a broker
// where one is asked for.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../src/demo/free-port.ts";
import { compiledBinary } from "../../support/program/compiled-binary.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { database, tablesSql } from "../chaos-stage.ts";
import type { JudgedStage } from "../oracle.ts";
import type { Random } from "../random.ts";
import { TallyReceiver } from "../tally-receiver.ts";
import { AnyReplica } from "./any-replica.ts";
import { ChaosReplica, canIsolate, hostName, hostsText, type Lines, type Ports } from "./chaos-replica.ts";
import { KafkaPart } from "./kafka-part.ts";
import { TermRecord } from "./term-record.ts";

/** A database at the sink by connector. */
const sinkDatabases: ReadonlyMap<string, string> = new Map([
  ["to-postgres", database],
  ["to-second", "second"],
]);

export interface ReplicaStageOptions {
  readonly replicas: number;
  readonly hasKafka: boolean;
  readonly random: Random;
}

interface Parts {
  readonly source: PostgresServer;
  readonly sink: PostgresServer;
  readonly state: PostgresServer;
  readonly receiver: TallyReceiver;
  readonly kafka: KafkaPart | null;
  readonly binary: string;
  readonly directory: string;
  /** Lines of all replicas. */
  readonly shared: Lines;
  /** Of the lines that each replica has for itself; null: it has none. */
  readonly ownPorts: Ports | null;
}

export class ReplicaChaosStage implements JudgedStage, AsyncDisposable {
  readonly sinkDatabases = [...sinkDatabases.values()];
  readonly source: PostgresServer;
  readonly sink: PostgresServer;
  readonly state: PostgresServer;
  readonly receiver: TallyReceiver;
  readonly kafka: KafkaPart | null;
  readonly replicas: ChaosReplica[] = [];
  readonly api: AnyReplica;
  readonly connectorIds: readonly string[];
  /** Milliseconds from the death of a holder to new rows at the sink. */
  readonly takeovers: number[] = [];
  /** Commands are sent meanwhile, which may stop a connector at any time: nothing is measured. */
  isCommanded = false;
  #record: TermRecord | null = null;
  #joined = 0;

  private constructor(
    private readonly owned: AsyncDisposableStack,
    private readonly parts: Parts,
    random: Random,
  ) {
    ({ source: this.source, sink: this.sink, state: this.state } = parts);
    ({ receiver: this.receiver, kafka: this.kafka } = parts);
    this.api = new AnyReplica(this.replicas, random);
    this.connectorIds = [...sinkDatabases.keys(), "to-webhook", ...(parts.kafka ? ["to-kafka"] : [])];
  }

  static async setUp({ replicas, hasKafka, random }: ReplicaStageOptions): Promise<ReplicaChaosStage> {
    await using building = new AsyncDisposableStack();
    const settings = { fsync: "off", max_wal_size: "512MB" };
    const [binary, source, sink, state] = await Promise.all([
      compiledBinary(),
      ...[1, 2, 3].map(() => PostgresServer.start({ settings })),
    ] as const);
    for (const server of [source, sink, state]) building.use(server as PostgresServer);
    const servers = { source: source!, sink: sink!, state: state! };
    await servers.source.createDatabase(database);
    for (const name of sinkDatabases.values()) await servers.sink.createDatabase(name);
    await servers.source.query(tablesSql, database);
    const receiver = building.use(await TallyReceiver.start());
    const kafka = hasKafka ? building.use(await KafkaPart.start(servers.source)) : null;
    const directory = await mkdtemp(join(tmpdir(), "millrace-chaos-"));
    building.defer(() => rm(directory, { recursive: true, force: true }));
    const targets = { source: servers.source.port, sink: servers.sink.port, receiver: receiver.port };
    const start = async (line: keyof Ports) => building.use(await TcpProxy.start(targets[line]));
    const shared = {
      source: await start("source"),
      sink: await start("sink"),
      receiver: await start("receiver"),
    };
    const ownPorts = await choosePorts(directory);
    const parts = { ...servers, receiver, kafka, binary, directory, shared, ownPorts };
    const stage = new ReplicaChaosStage(building.move(), parts, random);
    await stage.#begin(replicas);
    return stage;
  }

  get pids(): readonly number[] {
    return this.replicas.map(({ service }) => service.pid ?? 0);
  }

  /** Whether each replica has lines of its own to sources and sinks. */
  get isIsolated(): boolean {
    return this.parts.ownPorts !== null;
  }

  get record(): TermRecord {
    if (!this.#record) throw new Error("the connectors have no tables at the sink yet");
    return this.#record;
  }

  /** When the connectors have copied their tables. */
  async beginRecord(): Promise<void> {
    this.#record = await TermRecord.begin(this.sink, this.state, sinkDatabases);
  }

  /** One more. */
  async join(hasClock = false): Promise<ChaosReplica> {
    const { binary, directory, shared, ownPorts, source, sink, receiver } = this.parts;
    const number = ++this.#joined;
    const targets = { source: source.port, sink: sink.port, receiver: receiver.port };
    const own = ownPorts && { host: `127.0.1.${1 + (number % 250)}`, targets, ports: ownPorts };
    const replica = await ChaosReplica.start({
      name: `replica-${number}`,
      binary,
      directory,
      statePort: this.state.port,
      own,
      shared,
      hasClock,
    });
    this.replicas.push(replica);
    return replica;
  }

  /** It is gone for good. */
  async remove(replica: ChaosReplica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    await replica[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica[Symbol.asyncDispose]()));
    await this.owned.disposeAsync();
  }

  async #begin(replicas: number): Promise<void> {
    // The last one has a clock that can be set.
    for (let each = 1; each <= replicas; each++) await this.join(each === replicas);
    for (const id of this.connectorIds) await this.api.createConnector(id, this.#connector(id));
  }

  #connector(id: string) {
    const { shared, ownPorts } = this.parts;
    const address = (line: keyof Ports) =>
      ownPorts
        ? { host: hostName(line), port: ownPorts[line] }
        : { host: "127.0.0.1", port: shared[line].port };
    const connection = (line: "source" | "sink", name: string) => ({
      ...address(line),
      user: "postgres",
      password: "x",
      database: name,
      ssl_mode: "Disable",
    });
    const replication_type = { logical_replication: { retry_window_seconds: 86_400 } };
    const from = (name: string) => ({
      postgres: { connection: connection("source", name), replication_type },
    });
    if (id === "to-kafka" && this.kafka) return this.kafka.connector(from(this.kafka.database));
    const sinkDatabase = sinkDatabases.get(id);
    if (sinkDatabase !== undefined)
      return { source: from(database), sink: { postgres: { connection: connection("sink", sinkDatabase) } } };
    const { host, port } = address("receiver");
    const retry = {
      max_retries: 0,
      max_retry_duration_ms: 0,
      initial_backoff_ms: 200,
      max_backoff_ms: 2_000,
    };
    const webhook = { url: `http://${host}:${port}`, request_timeout_ms: 3_000, retry };
    return { source: from(database), sink: { webhook } };
  }
}

/** The same for all replicas, as a connector has one port. */
async function choosePorts(directory: string): Promise<Ports | null> {
  const hostsFile = join(directory, "hosts");
  await writeFile(hostsFile, hostsText("127.0.1.1"));
  if (!(await canIsolate(hostsFile))) return null;
  return { source: await freePort(), sink: await freePort(), receiver: await freePort() };
}
