// The brokers of one cluster: connections to them, who leads which partition, and who coordinates a transactional id. A request is sent
// once: who asks decides whether to try again.

import { type Connection, type ConnectionOptions, findCoordinatorV3, metadataV9 } from "@platformatic/kafka";
import type { AddressResolver } from "../../../connection/egress.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type Address, addressOf, addressText } from "./broker-address.ts";
import { BrokerPool } from "./broker-pool.ts";
import { answerIn, brokerErrors, failedDisk, isNetworkError, kafkaFailure } from "./kafka-error.ts";

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
  /** Connections go to no address that it refuses. */
  readonly resolver: AddressResolver;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
}

export interface TopicLayout {
  /** Which broker leads each partition; -1: none does now. */
  readonly leaders: readonly number[];
  /** Of the partition that has the fewest. */
  readonly replicas: number;
  readonly atMs: number;
}

const transactionKey = 1;
const closeWithinMs = 1_000;
/** Topics in one question. */
const describedAtOnce = 1_000;
/** Of what a broker knows, or does at once: one that says nothing for so long is asked no more. Batches, and topics to be made, wait for longer. */
const questionTimeoutMs = 4_000;

export class Cluster {
  /** For batches. */
  readonly #batches: BrokerPool;
  readonly #questions: BrokerPool;
  readonly #seeds: readonly Address[];
  #brokers = new Map<number, Address>();
  readonly #topics = new Map<string, TopicLayout>();
  /** -1: not known. */
  #controller = -1;
  /** By transactional id. */
  readonly #coordinators = new Map<string, number>();
  /** When a broker last gave no answer, by its address: others are asked before it. */
  readonly #silentMs = new Map<string, number>();

  constructor(private readonly options: ClusterOptions) {
    const { clientId, tls, sasl, connectTimeoutMs: connectTimeout, requestTimeoutMs, resolver } = options;
    this.#seeds = options.brokers.map(addressOf);
    const how = { ...(tls ? { tls } : {}), ...(sasl ? { sasl } : {}), connectTimeout };
    const pool = (requestTimeout: number) => new BrokerPool(clientId, { ...how, requestTimeout }, resolver);
    this.#batches = pool(requestTimeoutMs);
    this.#questions = pool(Math.min(questionTimeoutMs, requestTimeoutMs));
  }

  get brokerCount(): number {
    return this.#brokers.size;
  }

  /**
   * Asks any broker that answers: one after the other, those last that gave no answer before. `isPatient`: what takes a broker some time.
   * Throws what the client throws.
   */
  async ask<A>(question: (connection: Connection) => Promise<A>, isPatient = false): Promise<A> {
    const known = new Map(
      [...this.#brokers.values(), ...this.#seeds].map((each) => [addressText(each), each]),
    );
    const silentMs = ([name]: [string, Address]) => this.#silentMs.get(name) ?? 0;
    const inOrder = [...known].toSorted((a, b) => silentMs(a) - silentMs(b));
    const pool = isPatient ? this.#batches : this.#questions;
    let last: unknown = new Error("no broker is known");
    for (const [, address] of inOrder) {
      let connection: Connection | null = null;
      try {
        connection = await pool.get(address);
        return await question(connection);
      } catch (error) {
        if (connection && !isNetworkError(error)) throw error;
        this.#isSilent(address);
        last = error;
      }
    }
    throw unreachable(kafkaFailure(last, `connect to any of ${inOrder.map(([name]) => name).join(", ")}`));
  }

  /** Asks the broker that may change topics; where none is known, any. Throws what the client throws. */
  async askController<A>(question: (connection: Connection) => Promise<A>): Promise<A> {
    if (!this.#brokers.has(this.#controller)) return await this.ask(question, true);
    try {
      return await question(await this.node(this.#controller));
    } catch (error) {
      // Another one is asked for with the next description of topics.
      this.#controller = -1;
      throw error;
    }
  }

  /** To the broker of this number, for batches. */
  async node(id: number): Promise<Connection> {
    return await this.#node(id, this.#batches);
  }

  /** To the broker of this number, for what it answers at once. */
  async nodeForQuestions(id: number): Promise<Connection> {
    return await this.#node(id, this.#questions);
  }

  async #node(id: number, pool: BrokerPool): Promise<Connection> {
    const address = this.#brokers.get(id);
    if (!address) throw new MillraceError("sink_unreachable", `Broker ${id} is not in the cluster now.`);
    try {
      return await pool.get(address);
    } catch (error) {
      this.#isSilent(address);
      throw unreachable(kafkaFailure(error, `connect to broker ${id} at ${addressText(address)}`));
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
    if (asked.length === 0 && this.#brokers.size === 0) await this.#describe([]);
    for (let i = 0; i < asked.length; i += describedAtOnce)
      await this.#describe(asked.slice(i, i + describedAtOnce));
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
      `Partition ${partition} of topic ${topic} has no leader now: its broker is down, or a log directory there has failed. ${failedDisk}`,
    );
  }

  /** Whether a broker answers a question now. Never throws. */
  async answers(id: number): Promise<boolean> {
    try {
      const connection = await this.nodeForQuestions(id);
      await metadataV9.api.async(connection, [], false, false, false);
      return true;
    } catch {
      const address = this.#brokers.get(id);
      if (address) this.#isSilent(address);
      return false;
    }
  }

  /** The coordinator gave no answer. */
  coordinatorIsSilent(transactionalId: string): void {
    const address = this.#brokers.get(this.#coordinators.get(transactionalId) ?? -1);
    if (address) this.#isSilent(address);
  }

  /** What goes over another connection to it may be lost too: it is sent again over a new one. */
  #isSilent(address: Address): void {
    this.#silentMs.set(addressText(address), this.options.monotonic());
    this.#batches.drop(address);
  }

  /** Leaders and coordinators are asked for again when they are needed. */
  forgetRoles(): void {
    this.#topics.clear();
    this.#coordinators.clear();
  }

  async coordinator(transactionalId: string): Promise<Connection> {
    const known = this.#coordinators.get(transactionalId);
    if (known !== undefined && this.#brokers.has(known)) return await this.nodeForQuestions(known);
    const { coordinators } = await this.ask((connection) =>
      findCoordinatorV3.api.async(connection, transactionKey, [transactionalId]),
    );
    const { nodeId, host, port } = coordinators[0]!;
    this.#brokers.set(nodeId, { host, port });
    this.#coordinators.set(transactionalId, nodeId);
    return await this.nodeForQuestions(nodeId);
  }

  /** Cuts connections that do not close by themselves. */
  async close(): Promise<void> {
    await Promise.all([this.#batches, this.#questions].map((pool) => pool.close(closeWithinMs)));
  }

  async #describe(names: readonly string[]): Promise<void> {
    const asked = this.ask((connection) => metadataV9.api.async(connection, [...names], false, false, false));
    const response = await asked.catch((error: unknown) => {
      // Topics that are missing or have no leader are no failure; that they may not be seen is.
      const isRefused = brokerErrors(error).some(({ id }) => id.endsWith("AUTHORIZATION_FAILED"));
      const answer = isRefused ? null : answerIn<Awaited<typeof asked>>(error);
      if (answer) return answer;
      throw kafkaFailure(
        error,
        names.length > 0 ? `describe topic ${listedNames(names)}` : "describe the cluster",
      );
    });
    this.#brokers = new Map(response.brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]));
    this.#controller = response.controllerId;
    const atMs = this.options.monotonic();
    for (const { name, errorCode, partitions } of response.topics) {
      if (name === null) continue;
      if (errorCode !== 0 && partitions.length === 0) this.#topics.delete(name);
      else {
        const leaders = partitions
          .toSorted((a, b) => a.partitionIndex - b.partitionIndex)
          .map(({ leaderId }) => leaderId);
        const replicas = Math.min(...partitions.map(({ replicaNodes }) => replicaNodes.length));
        this.#topics.set(name, { leaders, replicas, atMs });
      }
    }
  }
}

/** Where nobody listens, the broker may have stopped by itself. */
function unreachable(failure: MillraceError): MillraceError {
  if (failure.code !== "sink_unreachable" || !/ECONNREFUSED|refused/i.test(failure.message)) return failure;
  const text = `${failure.message} Is the broker running? ${failedDisk}`;
  return new MillraceError(failure.code, text, { cause: failure });
}
