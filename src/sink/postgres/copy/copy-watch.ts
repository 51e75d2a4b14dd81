// Makes a copy while its session is watched, and tells how far it is.

import { type WatchedSession, whileWatched } from "../../../connection/session-watch.ts";
import type { CopyRequest } from "../../sink.ts";
import { PassingChunks } from "./passing-chunks.ts";

/** Makes the copy in `session`, with the counted request. */
export async function watchedCopy<Request extends CopyRequest, Outcome extends { readonly rows: number }>(
  session: WatchedSession,
  request: Request,
  copy: (counted: Request) => Promise<Outcome>,
): Promise<Outcome> {
  const passing = new PassingChunks(request);
  const outcome = await whileWatched({ ...session, isOurTurn: () => passing.isWaiting }, () =>
    copy({ ...request, chunks: passing.chunks() }),
  );
  request.progress(outcome.rows, passing.bytes);
  return outcome;
}
