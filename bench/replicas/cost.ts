// `bun run cost:replicas` measures what a state database has to do for the connectors of several replicas. The replicas are real processes over a
// real server, with real leases and reports. Their runs are simulated, so that there can be many; a smaller set of real ones shows that the
// simulated ones store as much.

import { Command } from "commander";
import { ownCommand } from "../../src/demo/service-process.ts";
import { wholeNumberFrom } from "../../test/support/program/whole-number.ts";
import { readUsage } from "../measure/process-usage.ts";
import { RealConnectors } from "./real-connectors.ts";
import { type BenchReplica, type NewConnector, ReplicaBench } from "./replica-bench.ts";
import { type Measured, table, tableOfStatements } from "./replica-table.ts";
import { busyPrefix } from "./simulated-run.ts";

const options = new Command("cost:replicas")
  .description("Measures what the state's server and the replicas have to do.")
  .option("--replicas <number>", "replicas", wholeNumberFrom(1), 4)
  .option("--idle <number>", "idle connectors, simulated", wholeNumberFrom(1), 1000)
  .option("--busy <number>", "busy connectors, simulated", wholeNumberFrom(1), 200)
  .option("--real <number>", "connectors of the comparison; 0: none is made", wholeNumberFrom(0), 40)
  .option("--settle <seconds>", "wait before each measurement", wholeNumberFrom(0), 15)
  .option("--watch <seconds>", "how long is measured", wholeNumberFrom(1), 60)
  .parse()
  .opts<{ replicas: number; idle: number; busy: number; real: number; settle: number; watch: number }>();

const simulatedCommand = [process.execPath, `${import.meta.dirname}/simulated-service.ts`];
const nowhere = { host: "127.0.0.1", port: 1, user: "nobody", password: "none", database: "none" };

/** Every other one is a webhook. */
function simulated(count: number, prefix: string): readonly NewConnector[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `${prefix}-${i}`,
    source: { postgres: { connection: nowhere, replication_type: { logical_replication: {} } } },
    sink: i % 2 === 0 ? { postgres: { connection: nowhere } } : { webhook: { url: "http://127.0.0.1:1/" } },
  }));
}

async function measure(bench: ReplicaBench, what: string): Promise<Measured> {
  await Bun.sleep(options.settle * 1_000);
  const cpu = ({ service }: BenchReplica) => readUsage(service.pid ?? 0)?.cpuSeconds ?? 0;
  const before = bench.replicas.map(cpu);
  const startedMs = performance.now();
  const load = await bench.meter.during(() => Bun.sleep(options.watch * 1_000));
  const seconds = (performance.now() - startedMs) / 1_000;
  const replicaCpu = bench.replicas.map((replica, i) => (cpu(replica) - (before[i] ?? 0)) / seconds);
  const measured = { what, load, replicaCpu };
  console.error(table([measured]));
  return measured;
}

async function simulatedFigures(): Promise<readonly Measured[]> {
  await using bench = await ReplicaBench.start(simulatedCommand, options.replicas);
  const figures = [await measure(bench, "no connector")];
  if (options.idle > 0) {
    await bench.create(simulated(options.idle, "idle"));
    figures.push(await measure(bench, `${options.idle} idle`));
  }
  if (options.busy > 0) {
    await bench.create(simulated(options.busy, busyPrefix));
    figures.push(await measure(bench, `and ${options.busy} busy`));
  }
  return figures;
}

/** The same connectors, with real runs and with simulated ones. */
async function comparison(count: number): Promise<readonly Measured[]> {
  const figures: Measured[] = [];
  {
    await using real = await RealConnectors.start(count);
    await using bench = await ReplicaBench.start(ownCommand(), options.replicas);
    await bench.create(real.connectors);
    figures.push(await measure(bench, `${count} real, idle`));
    await using _load = await real.write();
    figures.push(await measure(bench, `${count} real, busy`));
  }
  for (const prefix of ["idle", busyPrefix]) {
    await using bench = await ReplicaBench.start(simulatedCommand, options.replicas);
    await bench.create(simulated(count, prefix));
    figures.push(await measure(bench, `${count} simulated, ${prefix}`));
  }
  return figures;
}

if (options.real > 0) {
  const compared = await comparison(options.real);
  console.log(table(compared));
  console.log(tableOfStatements(compared.at(1)));
}
const figures = await simulatedFigures();
console.log(table(figures));
console.log(tableOfStatements(figures.at(-1)));
