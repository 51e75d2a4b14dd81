// The transport to Kafka. With transactions, the messages of whole transactions of the source and the connector's record are committed
// together. Without them, messages are reported once brokers have them, and the record is in the service's state.

import type { Checkpoint } from "../../change/checkpoint.ts";
import { type Lsn, zeroLsn } from "../../change/lsn.ts";
import type { Relation } from "../../change/relation.ts";
import { sleepOrThrow } from "../../concurrency/sleep.ts";
import type { AddressResolver } from "../../connection/egress.ts";
import type { OpenRequest, RowQuestion } from "../../connector/receipts.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { ParkingPlace } from "../delivery/parking/parking-set.ts";
import type { ReceiptPlace } from "../delivery/receipts/receipt-keeping.ts";
import type { PlannedRow } from "../delivery/stream/request-plan.ts";
import type {
  ChunkOutletOptions,
  OpenTransport,
  Outlet,
  Sent,
  StreamOutlet,
  StreamOutletOptions,
  Transport,
  TransportEvents,
} from "../delivery/transport.ts";
import { compileTable } from "../format/compiled-table.ts";
import type { CheckpointStore } from "../sink.ts";
import { checkpointTopic } from "./checkpoint/checkpoint-topic.ts";
import { type KafkaRun, KafkaStore, replicasWarning } from "./checkpoint/kafka-store.ts";
import { KafkaOutlet } from "./kafka-outlet.ts";
import type { KafkaSettings } from "./kafka-settings.ts";
import { MessageHeaders } from "./message-headers.ts";
import { type BoundaryTopic, type KafkaTable, MessageWriter } from "./message-writer.ts";
import { isRefusal } from "./parking/kafka-parking.ts";
import { KafkaParkingSet } from "./parking/kafka-parking-set.ts";
import { RetriedTables } from "./parking/retried-tables.ts";
import { ProducerLog } from "./produce/producer-log.ts";
import { ProducerSession } from "./produce/producer-session.ts";
import type { SenderEvents } from "./produce/round-sender.ts";
import { KafkaReceipts } from "./receipts/kafka-receipts.ts";
import { TableEncoding } from "./table-encoders.ts";
import { TopicQueues } from "./topic-queues.ts";

export interface KafkaTools {
  readonly monotonic: () => number;
  readonly nowMs: () => number;
  readonly resolver: AddressResolver;
  /** Where messages are parked; absent: nowhere. */
  readonly parking?: ParkingPlace;
  /** Undefined: no receipts are kept. */
  readonly receipts?: ReceiptPlace | undefined;
  /** What is counted. */
  readonly counts: Omit<SenderEvents, "retrying" | "halved" | "tooLarge"> & {
    retried(): void;
  };
}

/** The share of a transaction's timeout after which it is committed in parts. */
const commitWithin = 0.5;
/** Rows of a copy are counted so often. */
const rowsPerCount = 512;

/** `runId`: names this run of the connector in what it leaves in Kafka. */
export function kafkaTransport(settings: KafkaSettings, runId: string, tools: KafkaTools): OpenTransport {
  const run = { id: runId, hasCommitted: false };
  return (events, state) => new KafkaTransport(settings, run, tools, events, state);
}

class KafkaTransport implements Transport {
  readonly store: CheckpointStore;
  readonly commitWithinMs: number | null;
  readonly #stop = new AbortController();
  readonly #session: ProducerSession;
  readonly #log: ProducerLog;
  readonly #writer: MessageWriter;
  readonly #encoding: TableEncoding;
  readonly #topics: TopicQueues;
  readonly #tables: RetriedTables;
  /** Null: nothing is parked. */
  readonly #set: KafkaParkingSet | null;
  readonly #receipts: KafkaReceipts | null;
  /** Null: it is not said where transactions begin and end. */
  #boundaries: BoundaryTopic | null = null;
  /** A row's message was refused, and the next session knows. The record, or the end of a transaction, has no row. */
  #isRefusalKnown = false;

  constructor(
    private readonly settings: KafkaSettings,
    run: KafkaRun,
    tools: KafkaTools,
    private readonly events: TransportEvents,
    state: CheckpointStore,
  ) {
    const { signal } = this.#stop;
    const { messages, maxMessageBytes, log, sender } = settings;
    this.#session = new ProducerSession(
      settings,
      { ...tools, sleep: sleepOrThrow, signal },
      {
        sent: (sent, bytes) => tools.counts.sent(sent, bytes),
        committed: (ms) => tools.counts.committed(ms),
        halved: (bytes) => this.#log.limitBatches(bytes),
        tooLarge: async (row, reason) => {
          // What is parked already is noted also where nothing more is: otherwise the next run would meet it again.
          const isNoted = settings.parking.parksRefused || (row?.parkedId ?? null) !== null;
          if (isNoted && (await this.#set?.refuse(row, reason))) this.#isRefusalKnown = true;
        },
        retrying: (attempt, reason) => {
          if (attempt !== null) tools.counts.retried();
          events.retrying(attempt, reason);
        },
      },
    );
    const parks = tools.parking !== undefined && settings.parking.parksRefused;
    const isTransactional = sender.transactionalId !== null;
    const { monotonic } = tools;
    const pace = isTransactional ? { timeoutMs: settings.transactionTimeoutMs, monotonic } : null;
    const failed = (error: MillraceError) =>
      events.failed(
        this.#isRefusalKnown && error.code === "kafka_message_too_large" ? isSentAgain(error) : error,
      );
    this.#log = new ProducerLog(log, this.#session, failed, pace);
    this.#encoding = new TableEncoding(settings, tools.resolver, (reason) => events.warning("avro", reason));
    this.#topics = new TopicQueues(settings, this.#session);
    this.commitWithinMs = isTransactional ? settings.transactionTimeoutMs * commitWithin : null;
    const { receipts: place } = tools;
    this.#receipts = place
      ? new KafkaReceipts({ place, isTransactional, state, log: this.#log, monotonic })
      : null;
    this.#tables = new RetriedTables((relation) => this.#compile(relation));
    this.#set = tools.parking ? this.#parkingSet(tools, tools.parking, events) : null;
    const refused = parks ? (this.#set?.refused ?? null) : null;
    this.#writer = new MessageWriter(this.#log, messages, maxMessageBytes, refused, this.#receipts);
    this.store = new KafkaStore(
      settings,
      run,
      this.#session,
      this.#log,
      this.#topics,
      this.#receipts?.record ?? state,
      this.#set,
      this.#receipts?.staged ?? null,
    );
  }

  #parkingSet(
    { monotonic, nowMs }: KafkaTools,
    place: ParkingPlace,
    events: TransportEvents,
  ): KafkaParkingSet {
    const add = async (relation: Relation, row: PlannedRow, id: string, added: () => void) => {
      const table = await this.#tables.of(relation);
      while (!this.#log.hasCapacity && !this.#log.isOver) await this.#log.untilCapacity();
      this.#writer.addRow(table, row, id);
      added();
    };
    const taken = async () => {
      await this.#seal();
      // It is parked until then, and would be sent again.
      await this.#receipts?.saved();
    };
    return new KafkaParkingSet(this.settings, events, {
      place,
      monotonic,
      nowMs,
      sleep: sleepOrThrow,
      add,
      taken: this.commitWithinMs === null ? taken : null,
    });
  }

  get windowBytes(): number {
    return this.#log.mostBytes;
  }

  get keepsReceipts(): boolean {
    return this.#receipts !== null;
  }

  get isOver(): boolean {
    return this.#log.isOver;
  }

  async prepare(relations: readonly Relation[]): Promise<void> {
    await this.#receipts?.keeping.prepare(relations);
    await this.#topics.prepare(relations);
    if (this.commitWithinMs !== null) await this.#lookAtCheckpoints();
    const { transactions } = this.settings.encoding;
    if (!transactions || this.#boundaries) return;
    const topic = transactions.table;
    const queues = await this.#topics.of(topic, this.settings.topics);
    this.#boundaries = { queues, encoder: await this.#encoding.boundaries(topic, this.#stop.signal) };
  }

  async #lookAtCheckpoints(): Promise<void> {
    const { cluster } = this.#session;
    const topic = (await cluster.topics([checkpointTopic])).get(checkpointTopic);
    if (topic) this.events.warning("checkpoints", replicasWarning(topic.replicas, cluster.brokerCount));
  }

  /** Where its schema is refused, and rows can be parked, all of its rows are. */
  async compile(relation: Relation): Promise<KafkaTable> {
    const { parking } = this.settings;
    await this.#receipts?.keeping.changed(relation);
    try {
      return await this.#compile(relation);
    } catch (error) {
      if (!this.#set || !parking.parksRefused || !isRefusal(error)) throw error;
      const { queues } = await this.#topics.ofTable(relation);
      return this.#tables.refused(relation, { queues, headers: this.#headersOf(relation) }, error);
    }
  }

  async #compile(relation: Relation): Promise<KafkaTable> {
    const { queues, topic } = await this.#topics.ofTable(relation);
    const { value, key } = await this.#encoding.encoders(relation, topic, this.#stop.signal);
    return { ...compileTable(relation, value), key, headers: this.#headersOf(relation), queues };
  }

  #headersOf({ schema, name: table }: Relation): MessageHeaders {
    const { connectorId, database, messages } = this.settings;
    return new MessageHeaders(messages, { connectorId, database, schema, table });
  }

  stream({ sent, save }: StreamOutletOptions): StreamOutlet {
    this.#receipts?.saveBy(save);
    const outlet = this.#outlet(sent, Number.POSITIVE_INFINITY);
    return Object.assign(outlet, {
      addBoundary: (boundary: Parameters<StreamOutlet["addBoundary"]>[0]) => {
        if (!this.#boundaries) return;
        outlet.addOther(this.#writer.addBoundary(this.#boundaries, boundary));
      },
      // Messages and record are committed together, in the order in which they were added; without transactions the record comes first.
      tookVersion: () => {
        if (this.commitWithinMs === null) this.#log.waitFor(save());
      },
    });
  }

  chunk({ sent }: ChunkOutletOptions): Outlet {
    return this.#outlet(sent, rowsPerCount);
  }

  passed(checkpoint: Checkpoint, areCopiesOpen: boolean): void {
    this.#set?.passed(checkpoint, areCopiesOpen);
  }

  get keptReach(): Lsn {
    return this.#set?.parking.entries.reach ?? zeroLsn;
  }

  find(question: RowQuestion): readonly OpenRequest[] {
    return this.#receipts?.find(question) ?? [];
  }

  async drain(signal: AbortSignal): Promise<void> {
    const stopped = this.#set?.retry.stop(signal);
    if (signal.aborted) {
      this.#log.stop(toMillraceError(signal.reason));
      this.#stop.abort(signal.reason);
    } else if (this.commitWithinMs === null) {
      await Promise.race([
        this.#seal().catch(() => undefined),
        new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true })),
      ]);
    }
    await stopped;
  }

  async close(): Promise<void> {
    this.#log.stop(new MillraceError("sink_connection_lost", "the sink is closed"));
    await this.#receipts?.close();
    await this.#session.close();
    this.#stop.abort(new Error("closed"));
  }

  /** Resolves when brokers have taken all that was added. */
  #seal(): Promise<void> {
    return this.#receipts?.seal() ?? this.#log.seal();
  }

  #outlet(sent: Sent, countEvery: number): KafkaOutlet {
    return new KafkaOutlet({
      sent,
      countEvery,
      log: this.#log,
      writer: this.#writer,
      parking: this.#set?.parking ?? null,
      book: this.#receipts?.book ?? null,
      seal: this.commitWithinMs === null ? () => this.#seal() : null,
      flushIntervalMs: this.settings.delivery.flushIntervalMs,
    });
  }
}

/** The run connects anew: the message is parked when its row comes again, and the rest of its transaction goes out. */
function isSentAgain(error: MillraceError): MillraceError {
  const text = `${error.message} It is parked, and the rest of the transaction is sent again.`;
  return new MillraceError("sink_connection_lost", text.replace("Nothing is skipped. ", ""), {
    cause: error,
  });
}
