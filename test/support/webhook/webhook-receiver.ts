// A real HTTP server that takes webhooks: it plays a script (statuses, delays, resets, silence) and records
// everything. What the recorded requests mean is left to the test.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";

export interface ReceivedRequest {
  /** Place in the order of arrival, from 0. */
  readonly index: number;
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Decompressed. */
  readonly body: string;
  /** Bytes of the body as they came over the wire. */
  readonly wireBytes: number;
  readonly receivedMs: number;
  /** What the script made of it; an answer of 2xx is a delivery. */
  readonly action: ReceiverAction;
}

export type ReceiverAction =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
      readonly delayMs?: number;
    }
  /** The connection is reset instead of an answer. */
  | { readonly kind: "reset" }
  /** No answer ever comes. */
  | { readonly kind: "hang" }
  /** A response whose body never ends: `chunk` again and again, or nothing after the headers. */
  | { readonly kind: "endless"; readonly status: number; readonly chunk: string | null };

export type ReceiverScript = (request: {
  readonly index: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}) => ReceiverAction | number | undefined;

export interface ReceiverOptions {
  readonly script?: ReceiverScript;
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly hostname?: string;
  readonly port?: number;
}

const ok: ReceiverAction = { kind: "answer", status: 200 };

export class WebhookReceiver implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = [];
  /** Decides what happens to each request; may be replaced at any time. Undefined: 200. */
  script: ReceiverScript;
  /** Requests that have arrived and are not answered. */
  inFlight = 0;
  maxInFlight = 0;
  connections = 0;
  readonly #server: Server;
  #waiters: (() => void)[] = [];

  private constructor(private readonly options: ReceiverOptions) {
    this.script = options.script ?? (() => undefined);
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      this.#serve(request, response).catch(() => response.destroy());
    };
    this.#server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
    this.#server.on("connection", () => {
      this.connections++;
    });
  }

  static async start(options: ReceiverOptions = {}): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(options);
    await new Promise<void>((resolve, reject) => {
      receiver.#server.once("error", reject);
      receiver.#server.listen(options.port ?? 0, options.hostname ?? "127.0.0.1", resolve);
    });
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `${this.options.tls ? "https" : "http"}://127.0.0.1:${this.port}`;
  }

  /** Requests that were answered with 2xx, in the order of arrival. */
  get delivered(): readonly ReceivedRequest[] {
    return this.requests.filter(
      ({ action }) => "status" in action && action.status >= 200 && action.status < 300,
    );
  }

  /** Delivered requests, the first of each Idempotency-Key: what a receiver that deduplicates holds. */
  get deduplicated(): readonly ReceivedRequest[] {
    const seen = new Set<string>();
    return this.delivered.filter((request) => {
      const key = request.headers["idempotency-key"] ?? `#${request.index}`;
      if (seen.has(key)) return false;
      seen.add(key);
      return true;
    });
  }

  /** The rows of `requests`, parsed: elements of arrays, and bare objects. */
  static rows(requests: readonly ReceivedRequest[]): Record<string, unknown>[] {
    return requests.flatMap(({ body }) => JSON.parse(body) as Record<string, unknown>[]);
  }

  /** Resolves when `condition` holds; it is looked at after every request. Rejects after `timeoutMs`. */
  async until(condition: () => boolean, timeoutMs = 10_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!condition()) {
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`the receiver waited in vain; it has ${this.requests.length} requests`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, 100));
        this.#waiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.inFlight++;
    this.maxInFlight = Math.max(this.maxInFlight, this.inFlight);
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const wire = Buffer.concat(chunks);
      const headers = Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      );
      const body = decoded(wire, headers["content-encoding"]);
      const index = this.requests.length;
      const path = request.url ?? "";
      const said = this.script({ index, path, headers, body });
      const action: ReceiverAction =
        typeof said === "number" ? { kind: "answer", status: said } : (said ?? ok);
      const receivedMs = performance.now();
      const method = request.method ?? "";
      this.requests.push({ index, method, path, headers, body, wireBytes: wire.length, receivedMs, action });
      for (const wake of this.#waiters.splice(0)) wake();
      await play(action, request, response);
    } finally {
      this.inFlight--;
      for (const wake of this.#waiters.splice(0)) wake();
    }
  }
}

async function play(
  action: ReceiverAction,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  switch (action.kind) {
    case "answer":
      if (action.delayMs) await new Promise((resolve) => setTimeout(resolve, action.delayMs));
      response.writeHead(action.status, action.headers);
      response.end(action.body);
      return;
    case "reset":
      request.socket.destroy();
      return;
    case "hang":
      await closed(response);
      return;
    case "endless": {
      response.writeHead(action.status);
      response.flushHeaders();
      const timer = setInterval(() => action.chunk !== null && response.write(action.chunk), 5);
      await closed(response);
      clearInterval(timer);
      return;
    }
    default:
      action satisfies never;
  }
}

function closed(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once("close", resolve));
}

function decoded(wire: Buffer, encoding: string | undefined): string {
  switch (encoding) {
    case undefined:
      return wire.toString("utf8");
    case "gzip":
      return gunzipSync(wire).toString("utf8");
    case "zstd":
      return zstdDecompressSync(wire).toString("utf8");
    case "br":
      return brotliDecompressSync(wire).toString("utf8");
    default:
      throw new Error(`unknown Content-Encoding ${encoding}`);
  }
}
