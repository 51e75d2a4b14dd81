// A receiver that holds what a table would: of each row the latest version. It notes what must never come: a key that comes again with
// another body. What it answers may be changed at any time.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Mood = "takes" | "refuses" | "hangs" | "resets";

interface HeldRow {
  readonly version: number;
  readonly deleted: boolean;
  readonly row: string;
}

type Row = Record<string, unknown> & { readonly _sm_version: number; readonly _sm_deleted: boolean };

export class TallyReceiver implements AsyncDisposable {
  mood: Mood = "takes";
  requests = 0;
  /** By the wall clock, when rows came last that had not come before. */
  lastTakenAt = 0;
  readonly contradictions: string[] = [];
  /** By table, then by its key `id`. */
  readonly #tables = new Map<string, Map<string, HeldRow>>();
  /** By Idempotency-Key. */
  readonly #bodies = new Map<string, number | bigint>();
  readonly #server: Server;
  /** Requests that are kept waiting. */
  readonly #waiting = new Set<IncomingMessage>();

  private constructor() {
    this.#server = createServer((request, response) => {
      // Not the response: it would end as a 200.
      this.#serve(request, response).catch(() => request.socket.destroy());
    });
  }

  static async start(): Promise<TallyReceiver> {
    const receiver = new TallyReceiver();
    await new Promise<void>((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The rows that are there, as the JSON text of `columns`, by key. */
  rows(table: string, columns: readonly string[]): ReadonlyMap<string, string> {
    const there = [...(this.#tables.get(table) ?? [])].filter(([, { deleted }]) => !deleted);
    return new Map(
      there.map(([key, { row }]) => {
        const parsed = JSON.parse(row) as Record<string, unknown>;
        return [key, JSON.stringify(columns.map((column) => parsed[column] ?? null))];
      }),
    );
  }

  /** What hangs is let go, without an answer. */
  takeAgain(): void {
    this.mood = "takes";
    for (const { socket } of this.#waiting) socket.destroy();
    this.#waiting.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    request.setEncoding("utf8");
    for await (const chunk of request) body += chunk;
    this.requests++;
    if (this.mood === "hangs") return void this.#waiting.add(request);
    if (this.mood === "resets") return void request.socket.resetAndDestroy();
    if (this.mood === "refuses") return void response.writeHead(503).end();
    this.#take(String(request.headers["idempotency-key"]), String(request.headers["x-source-table"]), body);
    response.writeHead(200).end();
  }

  #take(key: string, table: string, body: string): void {
    const hash = Bun.hash(body);
    const before = this.#bodies.get(key);
    if (before !== undefined) {
      if (before !== hash) this.contradictions.push(`${key} of ${table} came with two bodies`);
      return;
    }
    const parsed = JSON.parse(body) as Row | Row[];
    this.#bodies.set(key, hash);
    this.lastTakenAt = Date.now();
    const rows = this.#tables.get(table) ?? new Map<string, HeldRow>();
    this.#tables.set(table, rows);
    for (const row of Array.isArray(parsed) ? parsed : [parsed]) this.#keep(rows, row);
  }

  #keep(rows: Map<string, HeldRow>, row: Row): void {
    const id = String(row.id);
    const held = rows.get(id);
    // Rows of one version come in their order.
    if (held && held.version > row._sm_version) return;
    rows.set(id, { version: row._sm_version, deleted: row._sm_deleted, row: JSON.stringify(row) });
  }
}
