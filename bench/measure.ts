// One measurement: the time that a piece of work takes, and what it takes of processors, memory and log.

import { type BenchServers, database } from "./bench-servers.ts";
import type { Contender, Copier } from "./contender.ts";
import type { Load } from "./loads.ts";
import type { Measurement } from "./report.ts";

/** From the start of the paused contender to the load's last row at the sink. */
export async function measureLoad(
  servers: BenchServers,
  start: () => Promise<Contender>,
  load: Load,
): Promise<Measurement> {
  await using contender = await start();
  await servers.renew();
  if (load.before) await servers.source.query(`${load.before}; analyze`, database);
  await contender.begin();
  await contender.pause();
  await load.write(servers.source);
  const marker = await servers.mark();
  const measurement = await measured(servers, contender, load.name, load.count, async () => {
    await contender.resume();
    await contender.untilMarked(marker);
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
  await untilWritten();
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

/** What was written before goes to the disk now, and not while somebody else is measured. */
async function untilWritten(): Promise<void> {
  const { exited } = Bun.spawn(["sync"]);
  await exited;
}
