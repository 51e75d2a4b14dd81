// Measures the duration of some work, and its use of CPU, memory and WAL.

import { type BenchServers, database } from "../bench-servers.ts";
import type { Contender, Copier } from "../contenders/contender.ts";
import type { Load } from "../loads.ts";
import type { Measurement } from "./report.ts";

/** Measures from the start of the paused contender until the load's last row is at the sink. */
export async function measureLoad(
  servers: BenchServers,
  start: () => Promise<Contender>,
  load: Load,
): Promise<Measurement> {
  await using contender = await start();
  await servers.recreate();
  if (load.before) await servers.source.query(`${load.before}; analyze`, database);
  await contender.begin();
  await contender.pause();
  await load.write(servers.source);
  const marker = await servers.writeMarker();
  const measurement = await measured(servers, contender, load.name, load.count, async () => {
    await contender.resume();
    await contender.untilMarkerArrives(marker);
  });
  await contender.end();
  return measurement;
}

export async function measured(
  servers: BenchServers,
  contender: Copier,
  load: string,
  count: number,
  work: () => Promise<void>,
): Promise<Measurement> {
  await flushDisk();
  contender.usage();
  const before = await servers.usage();
  const startedMs = performance.now();
  await work();
  const seconds = (performance.now() - startedMs) / 1000;
  const after = await servers.usage();
  return {
    contender: contender.name,
    load,
    count,
    seconds,
    service: contender.usage(),
    sourceCpuSeconds: after.sourceCpuSeconds - before.sourceCpuSeconds,
    sinkCpuSeconds: after.sinkCpuSeconds - before.sinkCpuSeconds,
    sinkWalBytes: after.sinkWalBytes - before.sinkWalBytes,
  };
}

/** Writes earlier data to the disk now, so that it does not slow down a measurement. */
async function flushDisk(): Promise<void> {
  const { exited } = Bun.spawn(["sync"]);
  await exited;
}
