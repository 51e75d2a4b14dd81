// What passes between the main thread and a connector's seats in worker threads. Plain data; bigint and MessagePort allowed.

import type { ConnectorConfig } from "../../connector/connector.ts";
import type { ChangedParts, SavedRecord } from "../../connector/saved-record.ts";
import type { HistoryComponent, SetAsideTable, Status } from "../../connector/status.ts";
import type { SnapshotSpec } from "../../connector/task.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Progress } from "../../pipeline/run-reporter.ts";
import type { RunWork } from "../../pipeline/run-work.ts";
import type { AttemptCounts } from "../../sink/webhook/attempt-counter.ts";

/** What one attempt of a run is given. */
export interface RunRequest {
  /** Full form, with its secrets. */
  readonly connector: ConnectorConfig;
  readonly work: RunWork;
  readonly runId: string;
  /** Names this service's hold on the connector, for the source: the same in every run, and nobody else's. */
  readonly owner: string;
  /** The connector has begun once: a missing checkpoint is then a loss and not a first start. */
  readonly initialized: boolean;
  /** The attempt before this one ended because the sink refused rows. */
  readonly isAfterRefusal: boolean;
}

/** main → replication worker */
export type ToReplicationWorker =
  /** `webhook`: the line to the webhook worker, for a webhook sink. */
  | (RunRequest & { readonly type: "start"; readonly webhook: MessagePort | null })
  /** Finish what is in flight, then end. */
  | { readonly type: "stop" }
  /** A snapshot task is waiting. The worker asks for it with `task.claim` when it can begin. */
  | { readonly type: "task.offer"; readonly taskId: string; readonly spec: SnapshotSpec }
  | Reply;

/** replication worker → main */
export type FromReplicationWorker =
  | { readonly type: "status"; readonly component: HistoryComponent; readonly status: Status }
  /** Slot and checkpoint exist. Stored before anything is delivered. Answered with `reply`. */
  | { readonly type: "initialized"; readonly requestId: number }
  | { readonly type: "metrics"; readonly metrics: WorkerMetrics }
  /** All the tables that are set aside at the sink now. */
  | { readonly type: "set aside"; readonly tables: readonly SetAsideTable[] }
  /** Pending → Running, answered with `reply`: value "claimed" or "gone". */
  | { readonly type: "task.claim"; readonly requestId: number; readonly taskId: string }
  | {
      readonly type: "task.progress";
      readonly taskId: string;
      readonly rows: number;
      readonly bytes: number;
      readonly estimatedRows: number;
    }
  | { readonly type: "task.done"; readonly taskId: string }
  | { readonly type: "task.failed"; readonly taskId: string; readonly error: WireError }
  | StoreRequest
  | LogLine
  /** The last word. `error` null: stopped or complete as asked. */
  | { readonly type: "ended"; readonly error: WireError | null };

/** main → webhook worker */
export type ToWebhookWorker =
  | {
      readonly type: "start";
      readonly connector: ConnectorConfig;
      readonly runId: string;
      /** The line to the replication worker. */
      readonly line: MessagePort;
    }
  | Reply;

/** webhook worker → main */
export type FromWebhookWorker =
  /** What came of requests since the worker began. Sent about once a second while it changes. */
  (AttemptCounts & { readonly type: "attempts" }) | StoreRequest | LogLine;

/** Whose record it is: the source and the sink of a connector keep one each. */
export type RecordOwner = "source" | "sink";

/** A record in the state store, of a source one without parts. Answered with `reply`: the record or null for a load, null for a save. */
export type StoreRequest =
  | { readonly type: "store.load"; readonly requestId: number; readonly owner: RecordOwner }
  | {
      readonly type: "store.save";
      readonly requestId: number;
      readonly owner: RecordOwner;
      readonly text: string;
      readonly parts: ChangedParts;
    };

export type ReplyValue = string | SavedRecord | null;

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
  /** Of an error that is none of ours, for the log: without it a fault in a worker could not be found. */
  readonly stack?: string;
}

/** Counters since the attempt began, and gauges of now. Sent about once a second while something moves. */
export type WorkerMetrics = Progress;

/** What a run's workers measure. */
export interface RunMetrics extends WorkerMetrics {
  readonly webhook: AttemptCounts;
}
