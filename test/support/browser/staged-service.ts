// A proxy before a real service: what it is not told to answer itself goes there. So the page gets what no real service can be brought
// to in a test, as a thousand connectors that all change several times a second, or a proxy that keeps the events back.

import type { GivenConnector } from "../../../src/connector/connector.ts";
import type { SampleList } from "../../../src/connector/service/samples.ts";

/** What is answered from memory. */
export interface Stage {
  readonly connectors: ReadonlyMap<string, GivenConnector>;
  /** `since`: null: from the beginning on. */
  samples(connectorId: string | null, since: string | null): SampleList;
}

/** `open`: they pass. `swallowed`: the answer begins, and nothing of it arrives. */
type Events = "open" | "swallowed";
type Reply = Response | Promise<Response>;

export class StagedService implements AsyncDisposable {
  events: Events = "open";
  /** As proxies answer while the service behind them is away. */
  isAway = false;
  /** By the path below /api/v1; null: leaves the answer to others. */
  override: ((path: string) => Reply | null) | null = null;
  readonly #followers = new Set<ReadableStreamDefaultController<Uint8Array>>();
  readonly #encoder = new TextEncoder();
  readonly #server: Bun.Server<undefined>;
  #sent = 0;

  /** @param target the real service @param stage null: everything comes from there */
  constructor(
    private readonly target: string,
    private readonly stage: Stage | null = null,
  ) {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** How many pages follow the staged events. */
  get followers(): number {
    return this.#followers.size;
  }

  /** Sends them to all that follow, as the service does. */
  send(events: readonly { readonly event: string; readonly data: object }[]): void {
    const text = events
      .map(
        ({ event, data }) => `id: staged-${++this.#sent}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
      )
      .join("");
    for (const follower of this.#followers) follower.enqueue(this.#encoder.encode(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  #answer(request: Request): Reply {
    const url = new URL(request.url);
    const path = url.pathname.replace(/^\/api\/v1/, "");
    if (path === url.pathname) return this.#forward(request, url);
    if (this.isAway) return new Response("Bad Gateway", { status: 502 });
    const given = this.override?.(path);
    if (given) return given;
    if (path === "/events" && this.events === "swallowed") return eventResponse(new ReadableStream());
    return (this.stage && this.#staged(this.stage, path, url)) ?? this.#forward(request, url);
  }

  #staged(stage: Stage, path: string, { searchParams }: URL): Reply | null {
    const [, id] = /^\/connectors\/([^/]+)$/.exec(path) ?? [];
    if (id) return Response.json(stage.connectors.get(id) ?? null);
    switch (path) {
      case "/connectors":
        return Response.json({ connectors: [...stage.connectors.values()] });
      case "/samples":
        return Response.json(stage.samples(searchParams.get("connector_id"), searchParams.get("since")));
      case "/events":
        return eventResponse(this.#follow());
      default:
        return null;
    }
  }

  #follow(): ReadableStream<Uint8Array> {
    let follower: ReadableStreamDefaultController<Uint8Array>;
    return new ReadableStream({
      start: (controller) => {
        follower = controller;
        this.#followers.add(follower);
        follower.enqueue(this.#encoder.encode(`retry: 1000\nid: staged-${this.#sent}\n\n`));
      },
      cancel: () => void this.#followers.delete(follower),
    });
  }

  async #forward(request: Request, { pathname, search }: URL): Promise<Response> {
    const headers = new Headers(request.headers);
    headers.delete("host");
    const body = request.body ? await request.arrayBuffer() : null;
    try {
      return await fetch(this.target + pathname + search, {
        method: request.method,
        headers,
        body,
        redirect: "manual",
        decompress: false,
        signal: request.signal,
      });
    } catch {
      return new Response("Bad Gateway", { status: 502 });
    }
  }
}

function eventResponse(body: ReadableStream<Uint8Array>): Response {
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}
