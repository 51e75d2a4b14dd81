// The brokers of one cluster: connections to them, who leads which partition, and who coordinates a transactional id. A request is sent
// once: who asks decides whether to try again.

import { isIP } from "node:net";
import {
  type Connection,
  type ConnectionOptions,
  ConnectionPool,
  findCoordinatorV3,
  metadataV9,
} from "@platformatic/kafka";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { brokerErrors, kafkaFailure } from "./kafka-error.ts";

export interface ClusterOptions {
  /** `host:port` of brokers that are asked for the others. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly tls: ConnectionOptions["tls"] | null;
  readonly sasl: ConnectionOptions["sasl"] | null;
  readonly connectTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** What is known of leaders is asked for again after so long. */
  readonly metadataAgeMs: number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface TopicLayout {
  /** Which broker leads each partition; -1: none does now. */
  readonly leaders: readonly number[];
  readonly atMs: number;
}

const transactionKey = 1;
const closeWithinMs = 1_000;

export class Cluster {
  /** To hosts that have a name, and to addresses: TLS names no address, and checks it nevertheless. */
  readonly #pools: { readonly named: ConnectionPool; readonly addressed: ConnectionPool };
  readonly #seeds: readonly Address[];
  #brokers = new Map<number, Address>();
  readonly #topics = new Map<string, TopicLayout>();
  /** By transactional id. */
  readonly #coordinators = new Map<string, number>();

  constructor(private readonly options: ClusterOptions) {
    const { tls, sasl, connectTimeoutMs, requestTimeoutMs } = options;
    this.#seeds = options.brokers.map(addressOf);
    const shared = {
      ...(tls ? { tls } : {}),
      ...(sasl ? { sasl } : {}),
      connectTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
    };
    this.#pools = {
      named: new ConnectionPool(options.clientId, { ...shared, tlsServerName: tls !== null }),
      addressed: new ConnectionPool(options.clientId, shared),
    };
  }

  get brokerCount(): number {
    return this.#brokers.size;
  }

  /** To any broker that can be reached. */
  async any(): Promise<Connection> {
    const known = [...this.#brokers.values(), ...this.#seeds];
    let last: unknown = new Error("no broker is known");
    for (const address of known) {
      try {
        return await this.#connect(address);
      } catch (error) {
        last = error;
      }
    }
    throw kafkaFailure(last, "connect");
  }

  /** To the broker of this number. */
  async node(id: number): Promise<Connection> {
    const address = this.#brokers.get(id);
    if (!address) throw new MillraceError("sink_unreachable", `Broker ${id} is not in the cluster now.`);
    try {
      return await this.#connect(address);
    } catch (error) {
      throw kafkaFailure(error, `connect to broker ${id} at ${address.host}:${address.port}`);
    }
  }

  /** What is known of these topics, asked for where it is not known or old. A topic that is not there is left out. */
  async topics(names: readonly string[], isFresh = false): Promise<ReadonlyMap<string, TopicLayout>> {
    const now = this.options.monotonic();
    const isKnown = (name: string) => {
      const known = this.#topics.get(name);
      return known && !known.leaders.includes(-1) && now - known.atMs < this.options.metadataAgeMs;
    };
    const asked = isFresh ? names : names.filter((name) => !isKnown(name));
    if (asked.length > 0 || this.#brokers.size === 0) await this.#ask(asked);
    return new Map(
      names.flatMap((name) => (this.#topics.has(name) ? [[name, this.#topics.get(name)!]] : [])),
    );
  }

  /** The partition's leader. Throws `sink_unreachable` while it has none. */
  leader(topic: string, partition: number): number {
    const leader = this.#topics.get(topic)?.leaders[partition] ?? -1;
    if (leader >= 0) return leader;
    throw new MillraceError(
      "sink_unreachable",
      `Partition ${partition} of topic ${topic} has no leader now.`,
    );
  }

  /** Cuts the connection to a broker: the next request opens another one. */
  drop(id: number): void {
    const address = this.#brokers.get(id);
    if (address) this.#poolOf(address).getEstablishedConnection(address)?.socket?.destroy();
  }

  /** Leaders and coordinators are asked for again when they are needed. */
  forgetRoles(): void {
    this.#topics.clear();
    this.#coordinators.clear();
  }

  async coordinator(transactionalId: string): Promise<Connection> {
    const known = this.#coordinators.get(transactionalId);
    if (known !== undefined && this.#brokers.has(known)) return await this.node(known);
    const connection = await this.any();
    const { coordinators } = await findCoordinatorV3.api.async(connection, transactionKey, [transactionalId]);
    const { nodeId, host, port } = coordinators[0]!;
    this.#brokers.set(nodeId, { host, port });
    this.#coordinators.set(transactionalId, nodeId);
    return await this.node(nodeId);
  }

  /** Cuts connections that do not close by themselves. */
  async close(): Promise<void> {
    const pools = Object.values(this.#pools);
    const connections = pools.flatMap((pool) => [...pool].map(([, connection]) => connection));
    const closed = Promise.all(pools.map((pool) => pool.close())).catch(() => undefined);
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, closeWithinMs))]);
    for (const { socket } of connections) socket?.destroy();
  }

  #poolOf({ host }: Address): ConnectionPool {
    return isIP(host) === 0 ? this.#pools.named : this.#pools.addressed;
  }

  async #connect(address: Address): Promise<Connection> {
    const connection = await this.#poolOf(address).get(address);
    // It reports an error as an event too, also after whoever waited has left.
    if (connection.listenerCount("error") < 2) connection.on("error", () => undefined);
    return connection;
  }

  async #ask(names: readonly string[]): Promise<void> {
    const connection = await this.any();
    const response = await metadataV9.api
      .async(connection, [...names], false, false, false)
      // Errors of single topics and partitions are in the answer, which has the rest.
      .catch((error: unknown) => answerOf(error) ?? Promise.reject(kafkaFailure(error, "describe topics")));
    this.#brokers = new Map(response.brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]));
    const atMs = this.options.monotonic();
    for (const { name, errorCode, partitions } of response.topics) {
      if (name === null) continue;
      if (errorCode !== 0 && partitions.length === 0) this.#topics.delete(name);
      else {
        const leaders = partitions
          .toSorted((a, b) => a.partitionIndex - b.partitionIndex)
          .map(({ leaderId }) => leaderId);
        this.#topics.set(name, { leaders, atMs });
      }
    }
  }
}

type Metadata = Awaited<ReturnType<typeof metadataV9.api.async>>;

/** Topics that are missing or have no leader are no failure; that they may not be seen is. */
function answerOf(error: unknown): Metadata | null {
  const isRefused = brokerErrors(error).some(({ id }) => id.endsWith("AUTHORIZATION_FAILED"));
  if (isRefused || typeof error !== "object" || error === null || !("response" in error)) return null;
  return error.response as Metadata;
}

function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(":");
  return { host: broker.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(broker.slice(colon + 1)) };
}
