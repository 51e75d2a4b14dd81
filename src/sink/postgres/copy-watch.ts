// Watches over a copy: that its session is there, and its progress without looking into a row: bytes as they pass, rows from
// the server's own count.
// https://www.postgresql.org/docs/current/progress-reporting.html#COPY-PROGRESS-REPORTING

import type { Client } from "pg";
import { processIdOf } from "../../connection/postgres-client.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import type { CopyRequest } from "../sink.ts";

const lookEveryMs = 500;

interface CopyWatch {
  /** The chunks of the request, counted. */
  readonly counted: AsyncIterable<Uint8Array>;
  /** Whether the sink has all that has come so far, and waits for the source. */
  isWaitingForRows(): boolean;
  /** The copy is complete. */
  finish(rows: number): Promise<void>;
  stop(): void;
}

/** Makes the copy in `session`, with the counted request. `observer` is a session beside it, which must be idle, or the same: then rows are counted at the end alone. */
export async function watchedCopy<Request extends CopyRequest, Outcome extends { readonly rows: number }>(
  observer: Client,
  session: WatchedSession,
  request: Request,
  copy: (counted: Request) => Promise<Outcome>,
): Promise<Outcome> {
  const watch = watchCopy(observer, session.client, request);
  try {
    const outcome = await whileWatched({ ...session, isOurTurn: watch.isWaitingForRows }, () =>
      copy({ ...request, chunks: watch.counted }),
    );
    await watch.finish(outcome.rows);
    return outcome;
  } finally {
    watch.stop();
  }
}

function watchCopy(observer: Client, copying: Client, request: CopyRequest): CopyWatch {
  let bytes = 0;
  let isWaiting = false;
  let looking: Promise<void> = Promise.resolve();
  async function* counted() {
    isWaiting = true;
    for await (const chunk of request.chunks) {
      isWaiting = false;
      bytes += chunk.length;
      yield chunk;
      isWaiting = true;
    }
    isWaiting = false;
  }
  const look = async () => {
    const { rows } = await observer.query<{ rows: string }>(
      "select tuples_processed::text as rows from pg_stat_progress_copy where pid = $1",
      [processIdOf(copying)],
    );
    if (rows[0]) request.progress(Number(rows[0].rows), bytes);
  };
  // A session cannot look at itself.
  const canLook = observer !== copying;
  const timer = setInterval(() => {
    if (canLook) looking = looking.then(look).catch(() => {});
    else request.progress(0, bytes);
  }, lookEveryMs);
  return {
    counted: counted(),
    isWaitingForRows: () => isWaiting,
    async finish(rows) {
      clearInterval(timer);
      await looking;
      request.progress(rows, bytes);
    },
    stop: () => clearInterval(timer),
  };
}
