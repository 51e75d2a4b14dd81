// The contract of a stream of changes. What it promises of order, repetition and memory is told in source.ts.

import type { ChangeBatch } from "../change/change-batch.ts";
import type { Lsn } from "../change/lsn.ts";

export interface ChangeStream extends AsyncDisposable {
  /**
   * All that has arrived since the last call, in whole transactions unless one is larger than the buffer. Waits while there is nothing
   * new. While it catches up it waits a moment more, so that small transactions come together. Throws when the connection fails.
   */
  next(): Promise<ChangeBatch>;

  /**
   * Resolves when the reader asks for more after everything that the server had logged before the stream began: that is written then, and
   * nothing that follows is a repetition. Never rejects.
   */
  readonly caughtUp: Promise<void>;

  /**
   * Somebody waits for what was committed before `lsn`, a place that the server's log has come to. As soon as the server says that it
   * has sent all of that, a batch says so, an empty one if need be.
   */
  reach(lsn: Lsn): void;

  /**
   * Everything before `resumeLsn` is durable at the sink. It never goes back. The server hears of it on the stream's own timer, whatever
   * the reader is doing.
   */
  acknowledge(resumeLsn: Lsn): void;

  /**
   * The reader stops, and has written everything before `written`. Returns an empty batch for how far the server's log has come since, if
   * nothing of it is left to write; null otherwise. It asks the server, and waits for a moment. Once that batch is durable and
   * acknowledged, disposing of the stream waits until the server has heard it.
   */
  end(written: Lsn): Promise<ChangeBatch | null>;

  /** How far the server's log is ahead of what was acknowledged, for people. */
  lag(): StreamLag;
}

export interface StreamLag {
  /** Bytes of WAL between the known end of the server's log and the last acknowledgement; 0 where nothing of it is for us, as far as is known. */
  readonly bytes: number;
  /**
   * Something for us is not acknowledged yet, and the server has not said for a while how far its log has come. Or `keptLog` found that its
   * log had come further than what it had sent.
   */
  readonly isInTheDark: boolean;
}
