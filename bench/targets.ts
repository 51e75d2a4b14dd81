// Where the service replicates to in a benchmark.

import type { Client } from "pg";
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

/** A receiver in a process of its own that throws everything away. */
export async function webhookTarget(): Promise<Target> {
  const child = Bun.spawn([process.execPath, `${import.meta.dirname}/discarding-receiver.ts`], {
    stdout: "pipe",
  });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${new TextDecoder().decode(value).trim()}`;
  return {
    name: "webhook",
    sink: { webhook: { url, path_template: "{schema}/{table}" } },
    isMarked: async (marker) => {
      const response = await fetch(url);
      return (await response.text()).includes(String(marker));
    },
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await child.exited;
    },
  };
}
