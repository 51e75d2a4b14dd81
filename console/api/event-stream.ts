// Reads `GET /api/v1/events` by fetch: EventSource cannot send credentials in a header.

import { authorized, throwIfForeign } from "./client.ts";
import { EventParser, type ServerEvent } from "./event-parser.ts";
import { problemOf } from "./problem.ts";

/** The service sends a sign of life every 15 s. */
const silenceMs = 40_000;

export interface EventStreamOptions {
  readonly url: string;
  /** Where to go on; "": from now. */
  readonly lastEventId: string;
  readonly signal: AbortSignal;
  /** Something has come: a proxy that gathers what it passes on may hold everything back behind the head. */
  readonly opened: () => void;
  readonly received: (event: ServerEvent) => void;
  /** Where to go on. */
  readonly passed: (lastEventId: string) => void;
}

/** Returns when the service ends the stream. Throws when it cannot be had, or has been silent for too long. */
export async function readEventStream({
  url,
  lastEventId,
  signal,
  opened,
  received,
  passed,
}: EventStreamOptions): Promise<void> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), silenceMs);
  try {
    const headers = authorized({
      accept: "text/event-stream",
      ...(lastEventId && { "last-event-id": lastEventId }),
    });
    const both = AbortSignal.any([signal, silence.signal]);
    const response = await fetch(url, { headers, credentials: "omit", cache: "no-store", signal: both });
    if (!response.ok || !response.body)
      throw problemOf(response.status, await response.json().catch(() => null));
    throwIfForeign(response, "text/event-stream");
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    let isOpen = false;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (!isOpen) opened();
      isOpen = true;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), silenceMs);
      for (const event of parser.push(decoder.decode(part.value, { stream: true }))) received(event);
      if (parser.lastEventId) passed(parser.lastEventId);
    }
  } finally {
    clearTimeout(timer);
  }
}
