// A webhook receiver as a user would write one: it answers 200 and keeps each delivery once, by its
// Idempotency-Key. What the deliveries add up to is worked out in received-rows.ts.

import type { Server } from "bun";

export interface Delivery {
  readonly schema: string;
  readonly table: string;
  /** JSON, as it came. */
  readonly body: string;
}

export class Receiver implements AsyncDisposable {
  readonly #server: Server<undefined>;
  readonly #deliveries = new Map<string, Delivery>();
  readonly #contradictions: string[] = [];
  #requests = 0;
  #keeps = true;

  private constructor() {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => this.#receive(request),
    });
  }

  static start(): Receiver {
    return new Receiver();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** Requests in all, also those that came again. */
  get requests(): number {
    return this.#requests;
  }

  /** Deliveries by their keys, in the order in which they first came. */
  get deliveries(): ReadonlyMap<string, Delivery> {
    return this.#deliveries;
  }

  /** Keys that came again with another body: there must be none. */
  get contradictions(): readonly string[] {
    return this.#contradictions;
  }

  /** From now on deliveries are counted and no longer kept. */
  stopKeeping(): void {
    this.#keeps = false;
    this.#deliveries.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  async #receive(request: Request): Promise<Response> {
    const body = await request.text();
    const key = request.headers.get("idempotency-key");
    const schema = request.headers.get("x-source-schema");
    const table = request.headers.get("x-source-table");
    if (request.method !== "POST" || key === null || schema === null || table === null) {
      return new Response("not a delivery", { status: 400 });
    }
    this.#requests += 1;
    if (this.#keeps) this.#keep(key, { schema, table, body });
    return new Response(null, { status: 200 });
  }

  #keep(key: string, delivery: Delivery): void {
    const known = this.#deliveries.get(key);
    if (known === undefined) this.#deliveries.set(key, delivery);
    else if (known.body !== delivery.body || known.table !== delivery.table) this.#contradictions.push(key);
  }
}
