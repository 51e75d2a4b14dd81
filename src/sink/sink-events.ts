// What a sink tells the run while it works, for people and for what is to be done next.

import type { Checkpoint } from "../change/checkpoint.ts";
import type { Lsn } from "../change/lsn.ts";
import type { TableShape } from "../change/relation.ts";
import type { MillraceError } from "../errors/millrace-error.ts";

export interface SinkEvents {
  /** Everything up to `checkpoint` is durable. Called in rising order. `rows` and `bytes`: what became durable since the last call. */
  durable(checkpoint: Checkpoint, rows: number, bytes: number): void;
  /** Something people should know that does not stop the run. The last reason of a topic counts. Null: it is over. */
  warning(topic: string, reason: string | null): void;
  /** The sink cannot go on, though no call is waiting. Later calls fail with the same error. */
  failed(error: MillraceError): void;
  /** All the tables that are set aside now. */
  setAside(tables: readonly SetAsideTable[]): void;
  /** Something changed at the sink: call `prepare` again, between two batches. */
  changed(): void;
  /** The sink has work to do once the stream has come to `lsn`. It asks for a batch then, an empty one if need be. */
  awaits(lsn: Lsn): void;
  /** The sink tries again by itself, in `inMs` where that is known. Null: it succeeded. */
  retrying(attempt: number | null, reason: string, inMs?: number): void;
}

/**
 * A table that needs a change which the sink may not make, or that cannot be read. The sink leaves its changes out, durably, until the
 * cause is gone. Then the table is copied. The others go on.
 */
export interface SetAsideTable {
  /** At the source. */
  readonly schema: string;
  readonly name: string;
  /** Changes that were committed from here on are left out; null: they are delivered. */
  readonly since: Lsn | null;
  readonly reason: string;
  /** SQL to run at the sink, each statement without a semicolon. */
  readonly commands: readonly string[];
  /** Nothing is left to do about it: it goes on once it is copied again. */
  readonly isCopiedAgain?: boolean;
}

/** A table that could not be copied, as the source does not let it be read. */
export interface UnreadableTable {
  readonly table: TableShape;
  /** For people. */
  readonly reason: string;
  /** The source can be asked again, so that the table may be `missing`. */
  readonly isDue: boolean;
}
