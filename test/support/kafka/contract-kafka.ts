// A real Kafka broker on the bench of the sinks' contract, with the real worker before it, and a state store that outlives both. What the
// sink says to the broker goes through a proxy, which can stall, and which breaks every connection where the service is to die. A bench
// is a connector with topics of its own.

import type { ConnectorConfig } from "../../../src/connector/connector.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { sampleConfig, sampleRequest } from "../api/sample-connector.ts";
import {
  eventsTo,
  type LifeOptions,
  nothingTold,
  type SinkBench,
  type SinkGround,
  type SinkKind,
  type SinkLife,
  type Told,
} from "../contract/bench.ts";
import { type ContractRow, sorted, type TableName } from "../contract/history.ts";
import type { TcpProxy } from "../servers/tcp-proxy.ts";
import { waitFor } from "../wait-for.ts";
import { RecordStore, WebhookRig } from "../webhook/webhook-rig.ts";
import { KafkaCluster } from "./kafka-cluster.ts";
import { readTopic, type TopicMessage } from "./kafka-reader.ts";

/** Messages and record are in one transaction. */
export const kafkaKind = kindOf("Kafka", true);
/** Messages are reported once the broker has them, and the record is in the state. */
export const plainKafkaKind = kindOf("Kafka without transactions", false);

const broker = 1;
const tables: readonly TableName[] = ["accounts", "entries"];
/** No test waits long for what is tried again, and it is tried until it succeeds. */
const patience = {
  message_send_max_retries: 1_000_000,
  retry_backoff_ms: 5,
  retry_backoff_max_ms: 50,
  linger_ms: 1,
};
/** The largest message of the suites has a megabyte. */
const messageBytes = 2_000_000;

function kindOf(name: string, isTransactional: boolean): SinkKind {
  return {
    name,
    isTransactional,
    removesRows: false,
    takesRanges: true,
    asksForRows: true,
    async start(): Promise<SinkGround> {
      const cluster = await KafkaCluster.start({ listeners: ["PROXIED"] });
      let count = 0;
      return {
        bench: async () => new KafkaBench(cluster, `contract-${++count}`, isTransactional),
        [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
      };
    },
  };
}

class KafkaBench implements SinkBench {
  readonly #store = new RecordStore();
  readonly #proxy: TcpProxy;
  #life: KafkaLife | null = null;
  #speak: () => void = () => {};
  #isBusy = false;
  #saidBefore = 0;
  /** As they were read last. */
  readonly #read = new Map<TableName, readonly TopicMessage[]>();

  constructor(
    private readonly cluster: KafkaCluster,
    /** The connector's, and what its topics begin with. */
    private readonly name: string,
    private readonly isTransactional: boolean,
  ) {
    this.#proxy = cluster.proxies[0]!;
    // What is asked of the state is a step as well.
    this.#store.admit = () => this.#life?.isDead === false && this.#proxy.step();
  }

  async live({ durable }: LifeOptions = {}): Promise<SinkLife> {
    const rig = await WebhookRig.start(this.#connector(), this.#store);
    this.#life = new KafkaLife(rig, this.#proxy, durable);
    return this.#life;
  }

  async rows(table: TableName): Promise<readonly ContractRow[]> {
    const messages = await this.#messages(table);
    this.#read.set(table, messages);
    const rows = table === "accounts" ? held(messages) : messages.flatMap(rowOf);
    return sorted(rows.map(({ id, v }) => ({ id: Number(id), v: String(v) })));
  }

  /** Looks at what was read last. */
  contradictions(): readonly string[] {
    return tables.flatMap((table) => {
      const messages = this.#read.get(table) ?? [];
      return [
        ...(this.isTransactional ? repetitions(messages) : []),
        ...otherWords(messages),
        ...(table === "accounts" ? steppedBack(messages) : []),
      ].map((what) => `${table}: ${what}`);
    });
  }

  async keepBusy(): Promise<void> {
    this.cluster.freeze(broker);
    this.#isBusy = true;
    this.#saidBefore = this.#proxy.said;
  }

  async metBusy(): Promise<void> {
    await waitFor("what is said to a busy broker", () => this.#proxy.said > this.#saidBefore);
  }

  silence(): void {
    this.#proxy.stall();
    this.#store.silence = new Promise((resolve) => {
      this.#speak = resolve;
    });
  }

  async answer(): Promise<void> {
    // What a dead service has said into the silence was not heard.
    if (this.#life?.isOver !== false) this.#proxy.cut();
    this.#proxy.resume();
    this.#store.silence = null;
    this.#speak();
    if (this.#isBusy) this.cluster.thaw(broker);
    this.#isBusy = false;
  }

  /** A broker knows no values: a compacted topic takes no message without a key, and `entries` has none. */
  async refuse(isRefused: boolean): Promise<void> {
    const policy = isRefused ? "compact" : "delete";
    await this.cluster.configureTopic(this.#topic("entries"), { "cleanup.policy": policy });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.answer();
    const there = await this.cluster.topics();
    for (const table of tables)
      if (there.includes(this.#topic(table))) await this.cluster.deleteTopic(this.#topic(table));
  }

  #topic(table: TableName): string {
    return `${this.name}.public.${table}`;
  }

  async #messages(table: TableName): Promise<readonly TopicMessage[]> {
    const topic = this.#topic(table);
    if (!(await this.cluster.topics()).includes(topic)) return [];
    const messages = await readTopic(this.cluster, topic, { isolation: "read_committed" });
    return this.isTransactional ? messages : onceEach(messages);
  }

  #connector(): ConnectorConfig {
    const transactions = { enabled: this.isTransactional };
    return sampleConfig(this.name, {
      ...sampleRequest(),
      sink: {
        kafka: {
          connection: {
            brokers: this.cluster.addresses("PROXIED"),
            config: { ...patience, message_max_bytes: messageBytes, transactions },
          },
          format: { native: {} },
          topic_name_template: `${this.name}.{schema}.{table}`,
          topic_options: {
            partitions: 3,
            config: [{ key: "max.message.bytes", value: String(messageBytes) }],
          },
        },
      },
      limits: { cdc: { flush_interval_ms: 5 } },
    });
  }
}

class KafkaLife implements SinkLife {
  readonly told: Told = nothingTold();
  readonly sink: Sink;
  isDead = false;
  /** It says no more. */
  isOver = false;

  constructor(
    private readonly rig: WebhookRig,
    private readonly proxy: TcpProxy,
    durable: LifeOptions["durable"],
  ) {
    this.sink = rig.sink(eventsTo(this.told, (checkpoint) => durable?.(checkpoint, this)));
  }

  stop(reason: Error): void {
    this.rig.abort(reason);
  }

  dieIn(steps: number): void {
    this.proxy.cutAt(steps, steps % 2 === 0, () => void this.kill());
  }

  async kill(): Promise<void> {
    this.isDead = true;
    this.isOver = true;
    // A worker takes a moment to end.
    this.proxy.refuse(true);
    this.proxy.cut();
    await this.rig.kill();
    this.proxy.refuse(false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rig[Symbol.asyncDispose]();
    this.isOver = true;
    this.proxy.cutAt(Number.POSITIVE_INFINITY, true, () => {});
  }
}

type Row = Readonly<Record<string, unknown>>;

function rowOf({ value }: TopicMessage): readonly Row[] {
  return value === null ? [] : [JSON.parse(value.toString()) as Row];
}

/** The rows of a table with a key, by who takes the columns that a row has over what it had of them. */
function held(messages: readonly TopicMessage[]): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const message of messages) {
    const key = String(message.key);
    const [row] = rowOf(message);
    if (!row || row._sm_deleted) rows.delete(key);
    else rows.set(key, { ...rows.get(key), ...row });
  }
  return [...rows.values()];
}

function identityOf({ headers }: TopicMessage): string | null {
  return headers.find(([name]) => name === "Idempotency-Key")?.[1]?.toString() ?? null;
}

/** Messages that came again are left out. */
function onceEach(messages: readonly TopicMessage[]): readonly TopicMessage[] {
  const seen = new Set<string>();
  return messages.filter((message) => {
    const identity = identityOf(message);
    if (identity === null) return true;
    if (seen.has(identity)) return false;
    seen.add(identity);
    return true;
  });
}

function repetitions(messages: readonly TopicMessage[]): readonly string[] {
  const seen = new Set<string>();
  return messages.flatMap((message) => {
    const identity = identityOf(message);
    const [row] = rowOf(message);
    const change = row && message.key ? `${message.key} ${row._sm_version} ${row._sm_deleted}` : null;
    const again = [identity, change].filter((each) => each !== null && seen.has(each));
    for (const each of [identity, change]) if (each !== null) seen.add(each);
    return again.map((each) => `${each} is there twice`);
  });
}

/** One identity is of one message. */
function otherWords(messages: readonly TopicMessage[]): readonly string[] {
  const words = new Map<string, string>();
  return messages.flatMap((message) => {
    const identity = identityOf(message);
    if (identity === null) return [];
    const text = `${message.key} ${message.value}`;
    const isOther = (words.get(identity) ?? text) !== text;
    words.set(identity, text);
    return isOther ? [`${identity} came with other words`] : [];
  });
}

function steppedBack(messages: readonly TopicMessage[]): readonly string[] {
  const last = new Map<string, { readonly version: number; readonly partition: number }>();
  return messages.flatMap((message) => {
    const [row] = rowOf(message);
    if (!row) return [];
    const key = String(message.key);
    const before = last.get(key);
    const version = Number(row._sm_version);
    last.set(key, { version, partition: message.partition });
    if (before && before.partition !== message.partition) return [`${key} is in two partitions`];
    return before && version < before.version ? [`${key} went back to an older version`] : [];
  });
}
