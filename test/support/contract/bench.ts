// What a kind of sink has to bring to be held to the contract of src/sink/sink.ts: a target that can be read, and that can be told to
// misbehave, and one life of the service after the other over it. A kind has a file of its own, and a line in kinds.ts.

import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import type { Lsn } from "../../../src/change/lsn.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import type { SetAsideTable, SinkEvents } from "../../../src/sink/sink-events.ts";
import type { ContractRow, ContractRows, TableName } from "./history.ts";

export interface SinkKind {
  readonly name: string;
  /** A transaction of the source is at the target as a whole or not at all, and what comes again is had once by the sink itself. */
  readonly isTransactional: boolean;
  /** Rows that a copy did not bring can be removed. */
  readonly removesRows: boolean;
  /** A copy may come in ranges, and goes on with those that are done when it was broken off. Else each copy is whole. */
  readonly takesRanges: boolean;
  /** `prepare` names rows that are incomplete beside a copy. Else the sink has them whole by itself, and `takeRows` is never called. */
  readonly asksForRows: boolean;
  /** Starts what all benches of the kind have in common. */
  start(): Promise<SinkGround>;
}

export interface SinkGround extends AsyncDisposable {
  /** A target that holds nothing, and a connector that has never begun. */
  bench(): Promise<SinkBench>;
}

export interface SinkBench extends AsyncDisposable {
  /** The service begins to live, over the target and the state that earlier lives have left. */
  live(options?: LifeOptions): Promise<SinkLife>;
  /** What the target holds, sorted. What it is given to look at is what was there when it was called. */
  rows(table: TableName): Promise<readonly ContractRow[]>;
  /** What the target was told again in other words, though it was to be told the same. */
  contradictions(): readonly string[];
  /** From here on the target takes nothing, and says so or lets the sink wait. */
  keepBusy(): Promise<void>;
  /** Resolves when the sink has met with a busy target. */
  metBusy(): Promise<void>;
  /** From here on neither the target nor the state says anything, and connections stay as they are. */
  silence(): void;
  /** The target takes what comes, and answers. */
  answer(): Promise<void>;
  /** Whether the target refuses, for good, rows of `entries` whose value is `refusedValue`. */
  refuse(isRefused: boolean): Promise<void>;
}

export const refusedValue = "refused";

export interface LifeOptions {
  readonly durable?: (checkpoint: Checkpoint, life: SinkLife) => void;
}

export interface SinkLife extends AsyncDisposable {
  readonly sink: Sink;
  readonly told: Told;
  /** It was killed, or has died at the step that was set. */
  readonly isDead: boolean;
  /** Fires the sink's signal. */
  stop(reason: Error): void;
  /**
   * It dies at that step, counted from 1 and from here on: a step is what it says to its target, or asks of its state. At an even one
   * that arrives, at an odd one it does not.
   */
  dieIn(steps: number): void;
  /** As SIGKILL does, wherever it is. */
  kill(): Promise<void>;
}

/** What the sink has said of itself. */
export interface Told {
  readonly durable: { readonly checkpoint: Checkpoint; readonly rows: number; readonly bytes: number }[];
  readonly failed: MillraceError[];
  readonly retrying: (number | null)[];
  setAside: readonly SetAsideTable[];
  /** How often the tables were to be looked at. */
  looks: number;
  /** Where the stream was to come to. */
  readonly awaited: Lsn[];
}

export const nothingTold = (): Told => ({
  durable: [],
  failed: [],
  retrying: [],
  setAside: [],
  looks: 0,
  awaited: [],
});

/** Events that are written down; `durable` hears of each checkpoint. */
export function eventsTo(told: Told, durable: (checkpoint: Checkpoint) => void): SinkEvents {
  return {
    durable(checkpoint, rows, bytes) {
      told.durable.push({ checkpoint, rows, bytes });
      durable(checkpoint);
    },
    warning() {},
    failed: (error) => void told.failed.push(error),
    setAside(tables) {
      told.setAside = tables;
    },
    changed: () => void told.looks++,
    awaits: (lsn) => void told.awaited.push(lsn),
    retrying: (attempt) => void told.retrying.push(attempt),
  };
}

export async function bothTables(bench: SinkBench): Promise<ContractRows> {
  return { accounts: await bench.rows("accounts"), entries: await bench.rows("entries") };
}
