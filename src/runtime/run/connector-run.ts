// One attempt of a run: its assignments to worker threads, and the replies to their requests. It knows neither the
// state store nor the retry policy; both are behind `RunEvents` and `ended`.

import type { SinkConfig } from "../../connector/config/sink-config.ts";
import type { ParkingAnswer, ParkingCall } from "../../connector/parking.ts";
import type { OpenRequest, ReceiptBatches, ReceiptCall, RowQuestion } from "../../connector/receipts.ts";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import type { HistoryComponent, SetAsideTable, Status } from "../../connector/status.ts";
import type { TaskProgress, TaskResult, TaskSpec } from "../../connector/task.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { TablesReport } from "../../pipeline/table-states.ts";
import type { AttemptCounts } from "../../sink/webhook/attempt-counter.ts";
import { deliveryWorkerUrl, replicationWorkerUrl } from "../../worker-urls.ts";
import { KafkaCounter, type KafkaCounts } from "../metrics/kafka-counter.ts";
import type {
  FromDeliveryWorker,
  FromReplicationWorker,
  LogLine,
  RecordOwner,
  Reply,
  RunMetrics,
  RunRequest,
  StoreRequest,
  ToDeliveryWorker,
  ToReplicationWorker,
  WorkerMetrics,
} from "../threads/messages.ts";
import { defaultThreads, ThreadPool } from "../threads/thread-pool.ts";
import type { WorkerChannel } from "../threads/worker-thread.ts";
import { answer, claimed, fromWire, nothing } from "./replies.ts";
import { RowQuestions } from "./row-questions.ts";

/** What the run reports and requests. A rejected promise is sent to the worker as an error. */
export interface RunEvents {
  /** `retryInMs`: when the next attempt follows, where that is known. */
  status(component: HistoryComponent, status: Status, retryInMs?: number): void;
  initialized(): Promise<void>;
  metrics(metrics: RunMetrics): void;
  /** The worker's thread is alive. */
  pulse(worker: WorkerKind, loopDelayMs: number): void;
  setAside(tables: readonly SetAsideTable[]): void;
  tables(report: TablesReport): void;
  /** Whether the worker may execute the task now. */
  claimTask(taskId: string): Promise<boolean>;
  taskProgress(taskId: string, progress: TaskProgress): void;
  taskDone(taskId: string, result: TaskResult | null): void;
  taskFailed(taskId: string, error: MillraceError): void;
  loadRecord(owner: RecordOwner): Promise<SavedRecord | null>;
  saveRecord(owner: RecordOwner, text: string, parts: ChangedParts, receipts: ReceiptBatches): Promise<void>;
  receipts(call: ReceiptCall): Promise<void>;
  parking(call: ParkingCall): Promise<ParkingAnswer>;
  log(line: LogLine): void;
}

/** An attempt, for those who wait for its end and offer it tasks. */
export interface RunAttempt {
  /**
   * Resolves when nothing of the attempt goes on: with null when it was complete or stopped as asked. Never rejects.
   */
  readonly ended: Promise<MillraceError | null>;
  /** The worker claims the task when it can. A worker that is still loading gets the offer after its start. */
  offerTask(taskId: string, spec: TaskSpec): void;
  /** Requests that have the row and are not delivered; null, or absent: nobody can tell. */
  findRow?(question: RowQuestion): Promise<readonly OpenRequest[] | null>;
  /** A claimed task is to end, without an outcome. */
  cancelTask(taskId: string): void;
  /** Asks the run to finish what is in flight, then end. */
  stop(): void;
  /** Ends the run without waiting for what is in flight. */
  cut(): void;
}

export type WorkerKind = "replication" | "webhook" | "kafka";

/** The threads in which runs execute. */
export interface WorkerThreads {
  readonly replication: ThreadPool<ToReplicationWorker, FromReplicationWorker>;
  readonly delivery: ThreadPool<ToDeliveryWorker, FromDeliveryWorker>;
}

/** At most `max` threads of each kind; more runs share them. */
export function workerThreads(
  max = defaultThreads(),
  urls = { replication: replicationWorkerUrl, delivery: deliveryWorkerUrl },
): WorkerThreads {
  return { replication: new ThreadPool(urls.replication, max), delivery: new ThreadPool(urls.delivery, max) };
}

/** How long a stopping run may take to finish what is in flight. */
const defaultStopMs = 7_000;
/** How long an assignment may take to stop after the run's end. */
const assignmentStopMs = 500;

export class ConnectorRun implements RunAttempt {
  readonly ended: Promise<MillraceError | null>;
  readonly #replication: WorkerChannel<ToReplicationWorker>;
  readonly #delivery: WorkerChannel<ToDeliveryWorker> | null;
  readonly #outcome = Promise.withResolvers<MillraceError | null>();
  readonly #earlyOffers: ToReplicationWorker[] = [];
  #metrics: WorkerMetrics | null = null;
  #attempts: AttemptCounts = { requests: 0, results: {}, sentBytes: 0 };
  #produced: KafkaCounts | null = null;
  readonly #questions = new RowQuestions();
  #started = false;
  #stopping = false;
  #isOver = false;
  #stopTimer: Timer | undefined;

  constructor(
    private readonly request: RunRequest,
    private readonly events: RunEvents,
    threads: WorkerThreads,
    private readonly stopMs = defaultStopMs,
  ) {
    const { id, sink } = request.connector;
    this.#replication = threads.replication.open(`replication ${id}`, {
      message: (message) => this.#receive(message),
      pulse: (loopDelayMs) => events.pulse("replication", loopDelayMs),
    });
    const kind = deliveryKind(sink);
    if (kind === "kafka") this.#produced = new KafkaCounter().counts();
    this.#delivery = kind
      ? threads.delivery.open(`${kind} ${id}`, {
          message: (message) => this.#receiveDelivery(message),
          pulse: (loopDelayMs) => events.pulse(kind, loopDelayMs),
        })
      : null;
    this.ended = this.#run();
  }

  offerTask(taskId: string, spec: TaskSpec): void {
    if (this.#stopping) return;
    if (this.#started) this.#replication.post({ type: "task.offer", taskId, spec });
    else this.#earlyOffers.push({ type: "task.offer", taskId, spec });
  }

  findRow(question: RowQuestion): Promise<readonly OpenRequest[] | null> {
    const delivery = this.#delivery;
    if (!delivery || !this.#started || this.#isOver) return Promise.resolve(null);
    return this.#questions.ask((questionId) => delivery.post({ type: "row.find", questionId, question }));
  }

  cancelTask(taskId: string): void {
    if (this.#started) this.#replication.post({ type: "task.cancel", taskId });
  }

  stop(): void {
    // A run that has reported its end is ending as it is.
    if (this.#stopping || this.#isOver) return;
    this.#stopping = true;
    if (this.#started) this.#replication.post({ type: "stop" });
    this.#stopTimer = setTimeout(() => {
      this.#log("warn", "the run did not stop in time and is cut off; it goes on from its checkpoint");
      this.#outcome.resolve(null);
    }, this.stopMs);
  }

  cut(): void {
    this.#stopping = true;
    this.#outcome.resolve(null);
  }

  async #run(): Promise<MillraceError | null> {
    const channels = [this.#replication, ...(this.#delivery ? [this.#delivery] : [])];
    for (const channel of channels) channel.died.then((error) => this.#outcome.resolve(error));
    try {
      await Promise.all(channels.map((channel) => channel.ready));
      if (this.#stopping) this.#outcome.resolve(null);
      else this.#start();
    } catch (error) {
      this.#outcome.resolve(toMillraceError(error));
    }
    const error = await this.#outcome.promise;
    this.#isOver = true;
    clearTimeout(this.#stopTimer);
    // The delivery worker last: the end of the replication worker may still need it.
    await this.#replication.close(assignmentStopMs);
    await this.#delivery?.close(assignmentStopMs);
    return this.#stopping ? null : error;
  }

  #start(): void {
    this.#postStart();
    for (const offer of this.#earlyOffers) this.#replication.post(offer);
  }

  #postStart(): void {
    const { connector, runId, ...rest } = this.request;
    this.#started = true;
    const begin = { type: "start", connector, runId } as const;
    if (!this.#delivery) {
      this.#replication.post({ ...begin, ...rest, delivery: null });
      return;
    }
    const { port1, port2 } = new MessageChannel();
    this.#delivery.post({ ...begin, port: port1 }, [port1]);
    this.#replication.post({ ...begin, ...rest, delivery: port2 }, [port2]);
  }

  #receive(message: FromReplicationWorker): void {
    const { events } = this;
    const reply = (answer: Reply) => this.#replication.post(answer);
    switch (message.type) {
      case "status":
        events.status(message.component, message.status, message.retryInMs);
        break;
      case "initialized":
        answer(message, nothing(events.initialized()), reply);
        break;
      case "metrics":
        this.#measured(message.metrics);
        break;
      case "set aside":
        events.setAside(message.tables);
        break;
      case "tables":
        events.tables(message.report);
        break;
      case "task.claim":
        answer(message, claimed(events.claimTask(message.taskId)), reply);
        break;
      case "task.progress":
        events.taskProgress(message.taskId, {
          rows: message.rows,
          bytes: message.bytes,
          estimated_rows: message.estimatedRows,
        });
        break;
      case "task.done":
        events.taskDone(message.taskId, message.result);
        break;
      case "task.failed":
        events.taskFailed(message.taskId, fromWire(message.error));
        break;
      case "store.load":
      case "store.save":
        this.#store(message, reply);
        break;
      case "log":
        events.log(message);
        break;
      case "ended":
        this.#outcome.resolve(message.error && fromWire(message.error));
        break;
      default:
        message satisfies never;
    }
  }

  #receiveDelivery(message: FromDeliveryWorker): void {
    switch (message.type) {
      case "store.load":
      case "store.save":
        this.#store(message, (answer) => this.#delivery?.post(answer));
        break;
      case "parking":
        answer(message, this.events.parking(message.call), (reply) => this.#delivery?.post(reply));
        break;
      case "receipts":
        answer(message, nothing(this.events.receipts(message.call)), (reply) => this.#delivery?.post(reply));
        break;
      case "row.found":
        this.#questions.answered(message.questionId, message.requests);
        break;
      case "attempts":
        this.#attempts = message;
        this.#measured(this.#metrics);
        break;
      case "produced":
        this.#produced = message.counts;
        this.#measured(this.#metrics);
        break;
      case "log":
        this.events.log(message);
        break;
      default:
        message satisfies never;
    }
  }

  /** Merges the counters of both workers into one measurement. */
  #measured(metrics: WorkerMetrics | null): void {
    this.#metrics = metrics;
    const { requests, results, sentBytes } = this.#attempts;
    if (!metrics) return;
    const webhook = { requests, results, sentBytes };
    this.events.metrics({ ...metrics, webhook, kafka: this.#produced });
  }

  #store(message: StoreRequest, reply: (answer: Reply) => void): void {
    const { type, owner } = message;
    if (type === "store.load") answer(message, this.events.loadRecord(owner), reply);
    else
      answer(
        message,
        nothing(this.events.saveRecord(owner, message.text, message.parts, message.receipts)),
        reply,
      );
  }

  #log(level: LogLine["level"], message: string): void {
    this.events.log({ type: "log", level, message, fields: {} });
  }
}

/** The kind of sink whose messages a delivery worker sends; null: the sink has none. */
export function deliveryKind(sink: SinkConfig): "webhook" | "kafka" | null {
  if (sink.webhook) return "webhook";
  return sink.kafka ? "kafka" : null;
}
