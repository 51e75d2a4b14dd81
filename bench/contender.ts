// What a benchmark asks of each system that it measures.

import type { Usage } from "./process-usage.ts";

/** One that copies. */
export interface Copier extends AsyncDisposable {
  readonly name: ContenderName;
  /** Begins with the source as it is now, and resolves when the copy of it is at the sink. */
  begin(): Promise<void>;
  /** Ends replication and leaves nothing at the source. */
  end(): Promise<void>;
  /** Of the process that replicates, since the last call; null where there is none of its own. */
  usage(): Usage | null;
}

/** One that goes on behind its copy. */
export interface Contender extends Copier {
  /** Replication stands still; the source keeps what is written. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Resolves when the row of `bench_marker` is at the sink. */
  untilMarked(marker: number): Promise<void>;
}

/** `discard` is our own stream into a sink that throws everything away: the bound of what a sink can reach. */
export type ContenderName = "postgres" | "millrace" | "discard" | "webhook" | CopierName;

/** Those that do nothing but copy. */
export type CopierName = "psql" | "pgcopydb";
