// What one attempt of a run gets: source, sink, its work, and how it is stopped.

import type { TupleForm } from "../change/change-batch.ts";
import type { Sink } from "../sink/sink.ts";
import type { SinkEvents } from "../sink/sink-events.ts";
import type { Source, SourceEvents } from "../source/source.ts";
import type { CopyPace } from "./copy/copy-pace.ts";
import type { CountedChanges } from "./counted-changes.ts";
import type { RunReporter, TaskInbox } from "./run-reporter.ts";
import type { RunWork } from "./run-work.ts";
import type { RetryPace } from "./unreadable-tables.ts";

export interface PipelineRequest {
  readonly work: RunWork;
  /** The connector has begun before: a missing checkpoint is an error then. */
  readonly initialized: boolean;
  /** If the slot is lost, go on with a new one, and compare the tables with the source. Left out: the loss ends the run. */
  readonly resumes?: boolean;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  /** `parallelCopies` comes from a bound on connections. */
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace;
  /** How many parts of a table are compared at once, at each side; absent: one. */
  readonly verifyLanes?: number;
  /** When unreadable tables are tried again. */
  readonly retryPace?: RetryPace;
  /** How often the retained WAL is checked while it may be much. */
  readonly logWatchMs?: number;
  /** The forms that the stream may take. */
  readonly forms: readonly TupleForm[];
  readonly makeSource: (events: SourceEvents) => Source;
  readonly makeSink: (events: SinkEvents) => Sink;
  /** What earlier attempts of the run have counted, and this one counts; absent: nothing yet. */
  readonly counted?: CountedChanges;
  readonly reporter: RunReporter;
  readonly tasks: TaskInbox;
  /** Finish the current batch, then return. */
  readonly stop: AbortSignal;
  /** End everything at once. */
  readonly abort: AbortSignal;
}
