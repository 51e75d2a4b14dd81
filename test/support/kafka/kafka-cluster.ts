// Real Kafka brokers for tests, one or three, each broker and controller (KRaft). Nothing of them is left behind, even
// when the test process is killed.

import { createPrivateKey } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../src/demo/free-port.ts";
import { SmallDisk } from "../program/small-disk.ts";
import { CertificateAuthority } from "../servers/certificate-authority.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";
import { waitFor } from "../wait-for.ts";
import {
  type BrokerSettings,
  brokerProperties,
  hostOf,
  isOverTls,
  type KafkaListener,
  type NodePorts,
  type PemFiles,
  type Properties,
  propertiesText,
  scramUsers,
  serverPem,
} from "./broker-properties.ts";
import { KafkaBroker } from "./kafka-broker.ts";
import { KafkaTool } from "./kafka-tool.ts";

export interface KafkaClusterOptions {
  readonly brokers?: 1 | 3;
  /** Beside PLAINTEXT. */
  readonly listeners?: readonly KafkaListener[];
  /** Passwords by name, for PLAIN and both kinds of SCRAM. */
  readonly users?: Readonly<Record<string, string>>;
  /** Who comes by SASL or MTLS may do only what `allow` allows. */
  readonly authorize?: boolean;
  /** Of every broker, over the settings that tests have by default. */
  readonly config?: Properties;
  /** Of every broker. */
  readonly heapMegabytes?: number;
  /** Of a node: a disk of its own for its log directory. `isSecond`: it has another log directory beside, with room. */
  readonly smallDisk?: { readonly node: number; readonly megabytes: number; readonly isSecond?: boolean };
}

export interface TopicOptions {
  readonly partitions?: number;
  /** As many as there are brokers. */
  readonly replicas?: number;
  readonly config?: Properties;
}

export interface TopicDescription {
  readonly partitions: readonly {
    /** -1: nobody leads. */
    readonly leader: number;
    readonly replicas: readonly number[];
    readonly inSync: readonly number[];
  }[];
  readonly config: Readonly<Record<string, string | null>>;
}

export interface Permission {
  readonly resource: "topic" | "transactional_id" | "group" | "cluster";
  /** Of a cluster: `kafka-cluster`. */
  readonly name: string;
  readonly pattern?: "LITERAL" | "PREFIXED";
  readonly operations: readonly string[];
}

export class KafkaCluster implements AsyncDisposable {
  private constructor(
    /** For further questions than the methods have. */
    readonly tool: KafkaTool,
    private readonly brokers: readonly KafkaBroker[],
    private readonly ports: readonly NodePorts[],
    /** One before each broker, if PROXIED is among the listeners. */
    readonly proxies: readonly TcpProxy[],
    /** It signed the brokers' certificates, and they trust what it signs. */
    readonly authority: CertificateAuthority,
    /** Of data and logs; it goes with the cluster. */
    readonly directory: string,
    /** As it was asked for. */
    readonly smallDisk: SmallDisk | null,
  ) {}

  static async start(options: KafkaClusterOptions = {}): Promise<KafkaCluster> {
    const { brokers: count = 1, listeners = [], users = {}, authorize = false } = options;
    const { heapMegabytes = 256, smallDisk } = options;
    const names: KafkaListener[] = ["PLAINTEXT", ...listeners];
    const directory = await mkdtemp(join(tmpdir(), "millrace-kafka-"));
    const proxies: TcpProxy[] = [];
    const tool = await KafkaTool.start(directory);
    const disk = smallDisk && (await SmallDisk.at(join(directory, "small"), smallDisk.megabytes));
    try {
      const ports: NodePorts[] = [];
      for (let node = 1; node <= count; node++) ports.push(await choosePorts(names, proxies));
      const authority = new CertificateAuthority("millrace Kafka test root");
      const pem = names.some(isOverTls) ? await writePem(directory, authority) : null;
      const brokers = await Promise.all(
        ports.map(async (_, index) => {
          const node = index + 1;
          const own = join(directory, `data-${node}`);
          const small = smallDisk?.node === node ? [join(directory, "small", "data")] : [];
          const data = [...(small.length === 0 || smallDisk?.isSecond ? [own] : []), ...small].join(",");
          const settings: BrokerSettings = { node, ports, data, users, authorize, pem };
          const configFile = join(directory, `broker-${node}.properties`);
          await writeFile(configFile, propertiesText({ ...brokerProperties(settings), ...options.config }));
          const logFile = join(directory, `broker-${node}.log`);
          return new KafkaBroker(node, configFile, logFile, tool, heapMegabytes);
        }),
      );
      const id = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64url");
      const scram = scramUsers(users);
      for (const { node } of brokers) {
        const config = join(directory, `broker-${node}.properties`);
        await tool.ask("format", { cluster: id, config, scram });
      }
      const cluster = new KafkaCluster(tool, brokers, ports, proxies, authority, directory, disk ?? null);
      await Promise.all(brokers.map((broker) => broker.launch()));
      await tool.ask("connect", { bootstrap: cluster.bootstrap.join(",") });
      await cluster.waitUntilUp();
      return cluster;
    } catch (error) {
      const said = await readFile(join(directory, "tool.log"), "utf8");
      await tool[Symbol.asyncDispose]();
      await disk?.[Symbol.asyncDispose]().catch(() => undefined);
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
      throw new Error(`${String(error)}\n${said.slice(-2_000)}`, { cause: error });
    }
  }

  get size(): number {
    return this.brokers.length;
  }

  /** Of PLAINTEXT. */
  get bootstrap(): string[] {
    return this.addresses("PLAINTEXT");
  }

  /** Of the brokers and of the tests' tool. */
  get pids(): number[] {
    return [...this.brokers, this.tool].flatMap(({ pid }) => pid ?? []);
  }

  /** `host:port` of each broker. */
  addresses(listener: KafkaListener): string[] {
    return this.ports.map(({ listeners, proxy }) => {
      const port = listener === "PROXIED" ? proxy : listeners.get(listener);
      if (port === undefined) throw new Error(`the cluster was started without ${listener}`);
      return `${hostOf(listener)}:${port}`;
    });
  }

  /** A crash. */
  async kill(node: number): Promise<void> {
    await this.#broker(node).end("SIGKILL");
  }

  /** As an administrator stops a broker: it hands over what it leads. */
  async stop(node: number): Promise<void> {
    await this.#broker(node).end("SIGTERM");
  }

  /** Starts a broker that was killed or stopped, on the same ports and data, and waits until it is up. */
  async restart(node: number): Promise<void> {
    const broker = this.#broker(node);
    await broker.launch();
    await broker.untilStarted();
  }

  isRunning(node: number): boolean {
    return this.#broker(node).isRunning;
  }

  freeze(node: number): void {
    this.#broker(node).freeze();
  }

  thaw(node: number): void {
    this.#broker(node).thaw();
  }

  /** Every broker that was not killed has started, and the cluster counts it. */
  async waitUntilUp(): Promise<void> {
    const running = this.brokers.filter(({ isRunning }) => isRunning);
    await Promise.all(running.map((broker) => broker.untilStarted()));
    await waitFor("a cluster of all running brokers", async () => {
      const nodes = (await this.tool.ask("nodes")) as number[];
      return running.every(({ node }) => nodes.includes(node));
    });
  }

  /** Every replica of the topic follows its leader. */
  async waitUntilInSync(topic: string): Promise<void> {
    await waitFor(`all replicas of ${topic}`, async () => {
      const { partitions } = await this.describeTopic(topic);
      return partitions.every(({ replicas, inSync }) => replicas.length === inSync.length);
    });
  }

  async createTopic(topic: string, options: TopicOptions = {}): Promise<void> {
    const { partitions = 1, replicas = this.brokers.length, config = {} } = options;
    await this.tool.ask("createTopic", { topic, partitions, replicas, config });
    await waitFor(`leaders of ${topic}`, async () => {
      const described = (await this.describeTopic(topic)).partitions;
      return described.length === partitions && described.every(({ leader }) => leader > 0);
    });
  }

  async deleteTopic(topic: string): Promise<void> {
    await this.tool.ask("deleteTopic", { topic });
  }

  async configureTopic(topic: string, config: Properties): Promise<void> {
    await this.tool.ask("configureTopic", { topic, config });
  }

  /** To so many in all. */
  async addPartitions(topic: string, partitions: number): Promise<void> {
    await this.tool.ask("addPartitions", { topic, partitions });
  }

  /** What each client may send in a second; null: as much as it can. */
  async limitProducers(bytesPerSecond: number | null): Promise<void> {
    await this.tool.ask("quota", { bytesPerSecond });
  }

  /** As retention does: what comes before the offset is gone. */
  async deleteRecords(topic: string, partition: number, before: bigint): Promise<void> {
    await this.tool.ask("deleteRecords", { topic, partition, before: Number(before) });
  }

  /** Without Kafka's own. */
  async topics(): Promise<string[]> {
    return (await this.tool.ask("topics")) as string[];
  }

  async describeTopic(topic: string): Promise<TopicDescription> {
    return (await this.tool.ask("describeTopic", { topic })) as TopicDescription;
  }

  /** The number of the broker that leads a partition. */
  async leader(topic: string, partition: number): Promise<number> {
    const { leader } = (await this.describeTopic(topic)).partitions[partition]!;
    if (leader < 0) throw new Error(`nobody leads ${topic}, partition ${partition}`);
    return leader;
  }

  /** The number of the broker that coordinates a transactional id, whether or not it was used yet. */
  async transactionCoordinator(transactionalId: string): Promise<number> {
    return (await waitFor("the coordinator", () =>
      this.tool.ask("coordinator", { transactionalId }),
    )) as number;
  }

  /** Every transactional id that the brokers know, with the state of its transaction. */
  async transactions(): Promise<{ transactionalId: string; producerId: number; state: string }[]> {
    return (await this.tool.ask("transactions")) as Awaited<ReturnType<KafkaCluster["transactions"]>>;
  }

  /** For SCRAM. Of PLAIN the passwords stay as they were at the start. */
  async setPassword(user: string, password: string): Promise<void> {
    await this.tool.ask("setPassword", { user, password });
  }

  async allow(user: string, ...permissions: readonly Permission[]): Promise<void> {
    for (const permission of permissions) {
      await this.tool.ask("allow", { user, pattern: "LITERAL", ...permission });
    }
  }

  /** Everything that the user was allowed. */
  async withdraw(user: string): Promise<void> {
    await this.tool.ask("withdraw", { user });
  }

  /** What the brokers said last, for a test that failed. */
  async logs(): Promise<string> {
    const ends = await Promise.all(
      this.brokers.map(async (each) => `broker ${each.node}:\n${await each.logEnd()}`),
    );
    return ends.join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.proxies) await proxy[Symbol.asyncDispose]();
    await Promise.all(this.brokers.map((broker) => broker.end("SIGKILL")));
    await this.smallDisk?.[Symbol.asyncDispose]();
    await this.tool[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
  }

  #broker(node: number): KafkaBroker {
    const broker = this.brokers[node - 1];
    if (!broker) throw new Error(`there is no broker ${node}`);
    return broker;
  }
}

async function choosePorts(names: readonly KafkaListener[], proxies: TcpProxy[]): Promise<NodePorts> {
  const listeners = new Map<KafkaListener, number>();
  for (const name of names) listeners.set(name, await freePort());
  const target = listeners.get("PROXIED");
  const proxy = target === undefined ? null : await TcpProxy.start(target);
  if (proxy) proxies.push(proxy);
  return { controller: await freePort(), listeners, proxy: proxy?.port ?? 0 };
}

async function writePem(directory: string, authority: CertificateAuthority): Promise<PemFiles> {
  const files = { keyStore: join(directory, "server.pem"), trustStore: join(directory, "root.pem") };
  const pkcs8 = (key: string) => createPrivateKey(key).export({ type: "pkcs8", format: "pem" }).toString();
  await writeFile(files.keyStore, serverPem(authority, pkcs8));
  await writeFile(files.trustStore, authority.root);
  return files;
}
