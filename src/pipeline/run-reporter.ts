// What a run tells while it goes on, and what it asks for. Whoever runs the pipeline decides where it goes.

import type { SnapshotSpec } from "../connector/task.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { SetAsideTable } from "../sink/sink.ts";
import type { BatchDistributions } from "./batch-measures.ts";

/** Where a run stands, for people. */
export type Phase =
  | { readonly name: "initialize"; readonly step: string }
  | { readonly name: "snapshot"; readonly table: string }
  | { readonly name: "realtime" };

export type PhaseHealth =
  | { readonly kind: "start" | "heartbeat" | "complete" }
  | { readonly kind: "warning"; readonly reason: string }
  | { readonly kind: "retry"; readonly attempt: number; readonly reason: string };

/** Counters since the run began, and gauges of now. */
export interface Progress {
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
  };
  /** Null: it is not known. */
  lagBytes: number | null;
  /** From commit at the source to durable at the sink, of the last change; null before one. */
  latencyMs: number | null;
  /** When the oldest commit was that the stream has brought and that is not durable yet; null: there is none. */
  behindSinceMs: number | null;
  /** Null: the stream has not taken up yet, and nothing is durable. */
  resumeLsn: string | null;
  batches: BatchDistributions;
  /** What the source's slot keeps, as it was asked last; null: it was not asked yet, or there is none. */
  slot: SlotLog | null;
}

export interface SlotLog {
  readonly retainedBytes: number;
  /** What may be written until the slot is in danger of being lost; null: the server has no limit. */
  readonly safeBytes: number | null;
}

export interface RunReporter {
  phase(phase: Phase, health: PhaseHealth): void;
  /** Slot and checkpoint exist. Nothing is delivered before it returns. */
  initialized(): Promise<void>;
  progress(progress: Progress): void;
  /** All the tables that are set aside at the sink. */
  setAside(tables: readonly SetAsideTable[]): void;
}

/** A snapshot task that waits for the run. */
export interface OfferedTask {
  readonly spec: SnapshotSpec;
  /** Takes the task over; false when it is gone, by cancellation. */
  claim(): Promise<boolean>;
  progress(rows: number, bytes: number, estimatedRows: number): void;
  done(): void;
  failed(error: MillraceError): void;
}

export interface TaskInbox {
  /** The next task of those that may be carried out now; null when there is none. */
  take(mayRun?: (task: OfferedTask) => boolean): OfferedTask | null;
  /** A task that was claimed, and that this attempt did not come to the end of: the next one may take it up. */
  putBack(task: OfferedTask): void;
  /** Calls `listener` whenever `take` may give one; null: nobody listens any more. */
  onArrival(listener: (() => void) | null): void;
}
