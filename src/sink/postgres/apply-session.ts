// What copies and comparisons need of the session that applies batches. That session belongs to postgres-sink.ts.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { WatchedSession } from "../../connection/session-watch.ts";

export interface ApplySession {
  /** Runs `action` in that session. Call it between two batches. */
  guard<T>(action: (client: Client) => Promise<T>): Promise<T>;
  /** For copies that are made in this session. Call it between two batches. */
  readonly client: () => Client;
  watched(client: Client): WatchedSession;
  /** Changes that the stream brought before this LSN are durable. */
  readonly resumeLsn: () => Lsn;
  /** Without a stream, nothing brings what was committed between the points of two chunks. */
  readonly hasStream: () => boolean;
  /** A copy waits for no lock any longer: the warning goes. */
  readonly lockWaitEnded: () => void;
  /** The form in which batches come. */
  readonly form: () => TupleForm;
  /** Gives up the source's transaction in progress: its session may hold locks that a copy needs. */
  readonly giveUpInProgress: () => void;
  /** Reads the bookkeeping again. Call it after it was changed in another way than by applying changes. */
  readonly readAgain: (client: Client) => Promise<unknown>;
}
