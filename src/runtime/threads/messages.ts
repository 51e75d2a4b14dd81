// The messages between the main thread and a connector's assignments in worker threads. Plain data; bigint and
// MessagePort are allowed.

import type { Position } from "../../change/checkpoint.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import type { ParkingAnswer, ParkingCall } from "../../connector/parking.ts";
import type { OpenRequest, ReceiptBatches, ReceiptCall, RowQuestion } from "../../connector/receipts.ts";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import type { HistoryComponent, SetAsideTable, Status } from "../../connector/status.ts";
import type { TaskResult, TaskSpec } from "../../connector/task.ts";
import type { Term } from "../../connector/term.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { RefusedTable } from "../../errors/millrace-error.ts";
import type { Progress } from "../../pipeline/run-reporter.ts";
import type { RunWork } from "../../pipeline/run-work.ts";
import type { TablesReport } from "../../pipeline/table-states.ts";
import type { AttemptCounts } from "../../sink/webhook/attempt-counter.ts";
import type { KafkaCounts } from "../metrics/kafka-counter.ts";

/** What an attempt of a run needs. */
export interface RunRequest {
  /** In full form, with secrets. */
  readonly connector: ConnectorConfig;
  readonly work: RunWork;
  readonly runId: string;
  /**
   * Identifies this service's use of the connector to the source. It is the same for every run, and no other service
   * has it.
   */
  readonly owner: string;
  /** Of the lease under which it runs. Sessions at source and sink bear it: a run ends those of lower terms, and none of a higher one. */
  readonly term: Term;
  /** The connector has run before: a missing checkpoint is then a loss, not a first start. */
  readonly initialized: boolean;
  /** If the slot is lost, it goes on with a new one, and compares the tables with the source. */
  readonly resumes: boolean;
  /** The previous attempt ended because the sink refused rows. */
  readonly isAfterRefusal: boolean;
  /** The last change that earlier attempts of the run have counted; null: they have counted none. */
  readonly counted: Position | null;
}

/** main → replication worker */
export type ToReplicationWorker =
  /** `delivery`: the port to the delivery worker, for a sink of messages. */
  | (RunRequest & { readonly type: "start"; readonly delivery: MessagePort | null })
  /** Finish what is in flight, then end. */
  | { readonly type: "stop" }
  /** A task is due. The worker sends `task.claim` when it can begin. */
  | { readonly type: "task.offer"; readonly taskId: string; readonly spec: TaskSpec }
  /** A claimed task was cancelled: it ends, and nothing is told of it any more. */
  | { readonly type: "task.cancel"; readonly taskId: string }
  | Reply;

/** replication worker → main */
export type FromReplicationWorker =
  | {
      readonly type: "status";
      readonly component: HistoryComponent;
      readonly status: Status;
      /** When the sink makes its next attempt, where that is known. */
      readonly retryInMs?: number;
    }
  /** Slot and checkpoint exist. Stored before anything is delivered. Gets a reply. */
  | { readonly type: "initialized"; readonly requestId: number }
  | { readonly type: "metrics"; readonly metrics: WorkerMetrics }
  /** All tables that are currently set aside at the sink. */
  | { readonly type: "set aside"; readonly tables: readonly SetAsideTable[] }
  /** Where tables stand. Sent at most once a second, and only those that have changed. Commands end in semicolons. */
  | { readonly type: "tables"; readonly report: TablesReport }
  /** Pending → Running. Gets a reply: "claimed" or "gone". */
  | { readonly type: "task.claim"; readonly requestId: number; readonly taskId: string }
  | {
      readonly type: "task.progress";
      readonly taskId: string;
      readonly rows: number;
      readonly bytes: number;
      readonly estimatedRows: number;
    }
  | { readonly type: "task.done"; readonly taskId: string; readonly result: TaskResult | null }
  | { readonly type: "task.failed"; readonly taskId: string; readonly error: WireError }
  | StoreRequest
  | LogLine
  /** The last message. `error` null: stopped or complete as asked. */
  | { readonly type: "ended"; readonly error: WireError | null };

/** main → delivery worker */
export type ToDeliveryWorker =
  | {
      readonly type: "start";
      readonly connector: ConnectorConfig;
      readonly runId: string;
      /** The port to the replication worker. */
      readonly port: MessagePort;
    }
  /** Which requests that are not delivered have the row. Gets `row.found`. */
  | { readonly type: "row.find"; readonly questionId: number; readonly question: RowQuestion }
  | Reply;

/** delivery worker → main */
export type FromDeliveryWorker =
  /** Results of requests since the worker began. Sent about once a second while they change. */
  | (AttemptCounts & { readonly type: "attempts" })
  /** The same of a Kafka connector's producer. */
  | { readonly type: "produced"; readonly counts: KafkaCounts }
  | ParkingRequest
  | ReceiptRequest
  | {
      readonly type: "row.found";
      readonly questionId: number;
      readonly requests: readonly OpenRequest[] | null;
    }
  | StoreRequest
  | LogLine;

/** The owner of a record: a connector's source and sink have one each. */
export type RecordOwner = "source" | "sink";

/**
 * A record in the state store; a source's record has no parts. A load gets the record or null as its reply, a save gets
 * null.
 */
export type StoreRequest =
  | { readonly type: "store.load"; readonly requestId: number; readonly owner: RecordOwner }
  | {
      readonly type: "store.save";
      readonly requestId: number;
      readonly owner: RecordOwner;
      readonly text: string;
      readonly parts: ChangedParts;
      readonly receipts: ReceiptBatches;
    };

/** Gets the answer to the call as its reply. */
export interface ParkingRequest {
  readonly type: "parking";
  readonly requestId: number;
  readonly call: ParkingCall;
}

/** Gets null as its reply. */
export interface ReceiptRequest {
  readonly type: "receipts";
  readonly requestId: number;
  readonly call: ReceiptCall;
}

export type ReplyValue = string | SavedRecord | ParkingAnswer;

export type Reply =
  | { readonly type: "reply"; readonly requestId: number; readonly value: ReplyValue }
  | { readonly type: "reply"; readonly requestId: number; readonly error: WireError };

export interface LogLine {
  readonly type: "log";
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: Readonly<Record<string, string | number | boolean | null>>;
}

export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  /** See `MillraceError.table`. */
  readonly table?: RefusedTable;
  /** See `MillraceError.commands`. */
  readonly commands?: readonly string[];
  /** For the log, if the error is not one of ours: without it a fault in a worker could not be found. */
  readonly stack?: string;
}

/** Counters since the attempt began, and current gauges. Sent about once a second while they change. */
export type WorkerMetrics = Progress;

/** The measurements of all of a run's workers. */
export interface RunMetrics extends WorkerMetrics {
  readonly webhook: AttemptCounts;
  /** Null: the sink is another one. */
  readonly kafka: KafkaCounts | null;
}
