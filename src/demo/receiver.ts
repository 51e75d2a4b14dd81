// A webhook receiver as a user would write one: it answers 200 and stores each delivery once, by its Idempotency-Key.
// received-rows.ts computes the tables from the deliveries.

import type { Server } from "bun";

export interface Delivery {
  readonly schema: string;
  readonly table: string;
  /** The JSON as received. */
  readonly body: string;
}

export class Receiver implements AsyncDisposable {
  readonly #server: Server<undefined>;
  readonly #deliveries = new Map<string, Delivery>();
  readonly #contradictions: string[] = [];
  #requests = 0;
  #isStoring = true;

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

  /** All requests, including repeated deliveries. */
  get requests(): number {
    return this.#requests;
  }

  /** Deliveries by key, in the order of their first arrival. */
  get deliveries(): ReadonlyMap<string, Delivery> {
    return this.#deliveries;
  }

  /** Keys that arrived again with a different body. There must be none. */
  get contradictions(): readonly string[] {
    return this.#contradictions;
  }

  /** Stops storing deliveries; they are still counted. */
  stopStoring(): void {
    this.#isStoring = false;
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
    if (this.#isStoring) this.#store(key, { schema, table, body });
    return new Response(null, { status: 200 });
  }

  #store(key: string, delivery: Delivery): void {
    const known = this.#deliveries.get(key);
    if (known === undefined) this.#deliveries.set(key, delivery);
    else if (known.body !== delivery.body || known.table !== delivery.table) this.#contradictions.push(key);
  }
}
