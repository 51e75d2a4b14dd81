// Parses a stream of server-sent events. https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

export interface ServerEvent {
  /** The last id that the stream has named; "": none. */
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

export class EventParser {
  #rest = "";
  #id = "";
  #event = "";
  #data: string[] = [];

  /** Where to go on: also events without data, which are none, may name it. "": not known. */
  get lastEventId(): string {
    return this.#id;
  }

  /** Takes what has arrived, and returns the events that are complete. */
  push(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line));
  }

  #line(line: string): ServerEvent[] {
    if (line === "") return this.#dispatch();
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "id") this.#id = value;
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
    return [];
  }

  #dispatch(): ServerEvent[] {
    const event = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.#event = "";
    this.#data = [];
    return isEmpty ? [] : [event];
  }
}
