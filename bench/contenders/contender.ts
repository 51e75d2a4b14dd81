// The interface of each system that a benchmark measures.

import type { Usage } from "../measure/process-usage.ts";

/** A system that copies tables. */
export interface Copier extends AsyncDisposable {
  readonly name: ContenderName;
  /** Copies the source as it is now. Resolves when the copy is at the sink. */
  begin(): Promise<void>;
  /** Ends replication and removes everything that it created at the source. */
  end(): Promise<void>;
  /** The usage of the replicating process since the last call. Null if there is no such process. */
  usage(): Usage | null;
}

/** A system that streams changes after its copy. */
export interface Contender extends Copier {
  /** Stops replication. The source retains the changes that are written meanwhile. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Resolves when this row of `bench_marker` is at the sink. */
  untilMarkerArrives(marker: number): Promise<void>;
}

/** `history` is the service with a history of each table of the loads. `discard` is our own stream into a sink that discards everything. It shows the most that a sink could reach. */
export type ContenderName =
  | "postgres"
  | "millrace"
  | "history"
  | "discard"
  | "webhook"
  | "kafka"
  | "debezium"
  | CopierName;

/** Systems that only copy. */
export type CopierName = "psql" | "pgcopydb";
