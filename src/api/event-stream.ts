// A follower's events as a stream of server-sent events.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

import type { EventFollower, FollowedEvent } from "./services.ts";

/** A line that says nothing is sent this often, so that neither side and no proxy takes the connection for dead. */
const commentMs = 15_000;
/** How long a browser waits before it connects again. */
const retryMs = 1_000;

/**
 * The server asks for more when the client has room for it, so that nothing gathers here: what waits is the follower's,
 * and that is bounded. The follower is closed when the client goes away.
 */
export function eventStream(follower: EventFollower): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>(
    {
      // At once, so that the client gets the response's head, and can resume from the first moment on.
      start: (controller) => controller.enqueue(encoder.encode(preamble(follower.position))),
      async pull(controller) {
        const events = await follower.next(commentMs);
        if (events === null) controller.close();
        else controller.enqueue(encoder.encode(events.length === 0 ? ":\n\n" : events.map(frame).join("")));
      },
      cancel: () => follower.close(),
    },
    { highWaterMark: 0 },
  );
}

/** An id without data is no event: it sets what the client resumes from. */
function preamble(position: string | null): string {
  return `retry: ${retryMs}\n${position === null ? "" : `id: ${position}\n`}\n`;
}

/** The data is JSON on one line. */
function frame({ id, event, data }: FollowedEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}
