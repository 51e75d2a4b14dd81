// The sinks that the service replicates to in a benchmark.

import type { Client } from "pg";
import type { JsonBody } from "../../src/demo/api-client.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Target } from "./millrace-service.ts";

const listed = ["bench", "bench_hot"].map((name) => ({ name, history_enabled: true }));

/** `history`: the tables of the loads have one. */
export async function postgresTarget(
  servers: BenchServers,
  name: "millrace" | "history" = "millrace",
): Promise<Target> {
  let client: (Client & AsyncDisposable) | null = null;
  return {
    name,
    ...(name === "history" ? { catalog: { schemas: [{ name: "public", tables: listed }] } } : {}),
    sink: { postgres: { connection: servers.sink.connection(database) } },
    hasMarker: async (marker) => {
      try {
        client ??= await servers.sink.connect(database);
        const { rowCount } = await client.query("select from bench_marker where id = $1", [marker]);
        return rowCount === 1;
      } catch {
        // The database has been recreated since.
        client = null;
        return false;
      }
    },
    [Symbol.asyncDispose]: async () => {
      await client?.end();
    },
  };
}

export interface WebhookOptions {
  /** Options of the sink, except its URL. */
  readonly sink?: JsonBody;
  readonly limits?: JsonBody;
  /** The delay of the receiver's responses. */
  readonly delayMs?: number;
  /** The receiver refuses bodies that contain it. */
  readonly refusedText?: string;
}

/** What a receiver has counted since the previous call. */
export interface Received {
  readonly requests: number;
  readonly refused: number;
  /** The size of the bodies as sent, compressed or not. */
  readonly wireBytes: number;
  /** The latency of each row of `bench_latency`: from its `at` to its arrival. */
  readonly latenciesMs: readonly number[];
}

export interface WebhookTarget extends Target {
  readonly url: string;
  received(): Promise<Received>;
}

/** A receiver in a separate process that discards everything. */
export async function webhookTarget(options: WebhookOptions = {}): Promise<WebhookTarget> {
  const program = `${import.meta.dirname}/discarding-receiver.ts`;
  const receiving = [String(options.delayMs ?? 0), options.refusedText ?? ""];
  const child = Bun.spawn([process.execPath, program, ...receiving], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${new TextDecoder().decode(value).trim()}`;
  return {
    name: "webhook",
    url,
    sink: { webhook: { url, path_template: "{schema}/{table}", ...options.sink } },
    ...(options.limits ? { limits: options.limits } : {}),
    hasMarker: async (marker) => {
      const response = await fetch(url);
      return (await response.text()).includes(String(marker));
    },
    received: async () => (await (await fetch(`${url}/received`)).json()) as Received,
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await child.exited;
    },
  };
}
