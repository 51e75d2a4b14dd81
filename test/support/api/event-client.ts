// A client of the stream of events: reads server-sent events, and tells when each came.

import { waitFor } from "../wait-for.ts";

export interface ReadEvent {
  readonly id: string;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into JSON of any shape.
  readonly data: any;
  /** By the monotonic clock. */
  readonly atMs: number;
}

export class EventClient implements AsyncDisposable {
  readonly events: ReadEvent[] = [];
  /** What the client would resume from. */
  lastId = "";
  comments = 0;
  /** How the stream has ended; null: it goes on. */
  ended: "in order" | "broken" | null = null;
  readonly #leaving = new AbortController();
  #rest = "";
  #reading: Promise<void> = Promise.resolve();

  private constructor(readonly response: Response) {}

  /** Connects. The caller looks at the response's status. */
  static async connect(url: string, lastEventId?: string): Promise<EventClient> {
    const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const leaving = new AbortController();
    const response = await fetch(`${url}/api/v1/events`, { headers, signal: leaving.signal });
    const client = new EventClient(response);
    client.#leaving.signal.addEventListener("abort", () => leaving.abort());
    if (response.ok) client.#reading = client.#read();
    else await response.body?.cancel();
    return client;
  }

  /** Waits for an event that fits, and returns it. */
  async until(what: string, fits: (event: ReadEvent) => boolean): Promise<ReadEvent> {
    await waitFor(what, () => this.events.some(fits));
    return this.events.find(fits)!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort();
    await this.#reading;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of this.response.body!) this.#take(decoder.decode(chunk, { stream: true }));
      this.ended = "in order";
    } catch {
      this.ended = "broken";
    }
  }

  #take(text: string): void {
    const frames = (this.#rest + text).split("\n\n");
    this.#rest = frames.pop() ?? "";
    for (const frame of frames) this.#takeFrame(frame.split("\n"));
  }

  #takeFrame(lines: readonly string[]): void {
    const field = (name: string) =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    if (lines.some((line) => line.startsWith(":"))) this.comments += 1;
    this.lastId = field("id") ?? this.lastId;
    const [event, data] = [field("event"), field("data")];
    if (event === undefined || data === undefined) return;
    this.events.push({ id: this.lastId, event, data: JSON.parse(data), atMs: performance.now() });
  }
}
