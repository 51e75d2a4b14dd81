// A service with one connector, from the source to the sink of a benchmark, and what a piece of its work costs.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../src/demo/api-client.ts";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { ownCommand, ServiceProcess } from "../../src/demo/service-process.ts";
import { type BenchServers, database } from "../bench-servers.ts";

export const connectorId = "bench";
export const poll = { timeoutMs: 1_200_000, intervalMs: 50 };

/** Returns once the copies are made, and the stream runs. */
export async function startStreaming(servers: BenchServers, stack: AsyncDisposableStack): Promise<ApiClient> {
  const directory = await mkdtemp(join(tmpdir(), "millrace-bench-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const service = await ServiceProcess.start({
    command: ownCommand(),
    dataDirectory: directory,
    environment: await servers.recreateState(),
  });
  stack.defer(async () => {
    await service.stop();
  });
  const api = new ApiClient(service.url);
  await api.createConnector(connectorId, {
    source: {
      postgres: {
        connection: servers.source.connection(database),
        replication_type: { logical_replication: {} },
      },
    },
    sink: { postgres: { connection: servers.sink.connection(database) } },
  });
  const isStreaming = async () => (await api.connector(connectorId)).status.state.realtime !== undefined;
  await pollUntil("the stream", isStreaming, poll);
  return api;
}

export interface Cost {
  readonly seconds: number;
  /** Of both servers. It counts also where others use the machine. */
  readonly cpuSeconds: number;
  readonly sinkWalBytes: number;
}

export async function costOf(servers: BenchServers, work: () => Promise<void>): Promise<Cost> {
  const before = await servers.usage();
  const beganMs = performance.now();
  await work();
  const seconds = (performance.now() - beganMs) / 1000;
  const after = await servers.usage();
  const cpuSeconds = (side: "sourceCpuSeconds" | "sinkCpuSeconds") => after[side] - before[side];
  return {
    seconds,
    cpuSeconds: cpuSeconds("sourceCpuSeconds") + cpuSeconds("sinkCpuSeconds"),
    sinkWalBytes: after.sinkWalBytes - before.sinkWalBytes,
  };
}
