// What a run reports and asks for. Whoever runs the pipeline decides where reports go.

import type { Position } from "../change/checkpoint.ts";
import type { TaskResult, TaskSpec } from "../connector/task.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { CopyPhase } from "../sink/copy-sink.ts";
import type { SetAsideTable } from "../sink/sink-events.ts";
import type { BatchDistributions } from "./batch-measures.ts";
import type { TablesReport } from "./table-states.ts";

/** Where a run stands, for people. */
export type Phase =
  | { readonly name: "initialize"; readonly step: string }
  | { readonly name: "snapshot"; readonly table: string }
  | { readonly name: "realtime" };

export type PhaseHealth =
  | { readonly kind: "start" | "heartbeat" | "complete" }
  /** `isOfSink`: it is about the sink alone. */
  | {
      readonly kind: "warning";
      readonly reason: string;
      readonly isOfSink?: true;
      /** SQL that would help, each statement without a semicolon. */
      readonly commands?: readonly string[];
    }
  /** Of the sink. `inMs`: when the next attempt follows, where that is known. */
  | { readonly kind: "retry"; readonly attempt: number; readonly reason: string; readonly inMs?: number };

/** Counters since the attempt began, and gauges of now. */
export interface Progress {
  /** Without what earlier attempts of the run have counted, and without transactions that are not committed yet. */
  rowsIn: number;
  bytesIn: number;
  rowsDurable: number;
  bytesDurable: number;
  readonly snapshot: {
    tables: number;
    tablesDone: number;
    /** Tables that are being copied now. */
    copying: number;
    rows: number;
    bytes: number;
    estimatedRows: number;
    /** Of the table that is the least far. */
    phase?: CopyPhase | "Reading";
  };
  /** How far tables are compared with the source after a lost slot; left out: none is to be. */
  resume?: {
    readonly tables: number;
    readonly tablesDone: number;
    /** The one that is being compared; null: none. */
    readonly table: string | null;
    /** Rows of it that have been looked at. */
    readonly rows: number;
    readonly estimatedRows: number;
  };
  /** Null: it is not known. */
  lagBytes: number | null;
  /** From commit at the source to durable at the sink, of the last change; null before one. */
  latencyMs: number | null;
  /** The time of the oldest commit that was received and is not durable; null: there is none. */
  behindSinceMs: number | null;
  /** Null: the stream has not begun yet, and nothing is durable. */
  resumeLsn: string | null;
  batches: BatchDistributions;
  /** What the source's slot retains, as of the last check; null: not checked yet, or there is no slot. */
  slot: SlotLog | null;
  /** The last change that `rowsIn` has, for the next attempt; null: none has been counted. */
  counted: Position | null;
}

export interface SlotLog {
  readonly retainedBytes: number;
  /** How much WAL may still be written before the slot may be lost (`safe_wal_size`); null: no limit. */
  readonly safeBytes: number | null;
  /** Why that is dangerous, and what to do; null: it is not. */
  readonly warning: string | null;
}

export interface RunReporter {
  phase(phase: Phase, health: PhaseHealth): void;
  /** Slot and checkpoint exist. Nothing is delivered before it returns. */
  initialized(): Promise<void>;
  progress(progress: Progress): void;
  /** All the tables that are set aside at the sink. */
  setAside(tables: readonly SetAsideTable[]): void;
  /** Where tables stand, at most once a second. */
  tables(report: TablesReport): void;
}

/** A task that waits for the run. */
export interface OfferedTask {
  readonly id: string;
  readonly spec: TaskSpec;
  /** Fires when the task was cancelled: it ends without an outcome. Absent: it never is. */
  readonly cancelled?: AbortSignal;
  /** Takes the task over. False: it was cancelled. */
  claim(): Promise<boolean>;
  progress(rows: number, bytes: number, estimatedRows: number): void;
  /** `result`: of a verification or a replay. */
  done(result?: TaskResult): void;
  failed(error: MillraceError): void;
}

export interface TaskInbox {
  /** Takes the next task that may run now; null: there is none. */
  take(mayRun?: (task: OfferedTask) => boolean): OfferedTask | null;
  /** Puts back a claimed task that this attempt did not finish. The next attempt may resume it. */
  putBack(task: OfferedTask): void;
  /** Calls `listener` whenever `take` may return a task; null: nobody listens any more. */
  onArrival(listener: (() => void) | null): void;
}
