// Where the service replicates to in a benchmark.

import type { Client } from "pg";
import type { JsonBody } from "../src/demo/api-client.ts";
import { type BenchServers, database } from "./bench-servers.ts";
import type { Target } from "./millrace-service.ts";

export async function postgresTarget(servers: BenchServers): Promise<Target> {
  let client: (Client & AsyncDisposable) | null = null;
  return {
    name: "millrace",
    sink: { postgres: { connection: servers.sink.connection(database) } },
    isMarked: async (marker) => {
      try {
        client ??= await servers.sink.connect(database);
        const { rowCount } = await client.query("select from bench_marker where id = $1", [marker]);
        return rowCount === 1;
      } catch {
        // The database was made anew since.
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
  /** Of the sink, beside where it is. */
  readonly sink?: JsonBody;
  readonly limits?: JsonBody;
  /** The receiver answers so late. */
  readonly delayMs?: number;
}

/** What a receiver has seen since it was last asked. */
export interface Received {
  readonly requests: number;
  /** Bodies as they came over the wire. */
  readonly wireBytes: number;
  /** Of each row of `bench_latency`: from its `at` to its arrival. */
  readonly waitsMs: readonly number[];
}

export interface WebhookTarget extends Target {
  readonly url: string;
  received(): Promise<Received>;
}

/** A receiver in a process of its own that throws everything away. */
export async function webhookTarget(options: WebhookOptions = {}): Promise<WebhookTarget> {
  const program = `${import.meta.dirname}/discarding-receiver.ts`;
  const child = Bun.spawn([process.execPath, program, String(options.delayMs ?? 0)], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${new TextDecoder().decode(value).trim()}`;
  return {
    name: "webhook",
    url,
    sink: { webhook: { url, path_template: "{schema}/{table}", ...options.sink } },
    ...(options.limits ? { limits: options.limits } : {}),
    isMarked: async (marker) => {
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
