// `bun run soak` runs the service with both sinks under load for a given time and draws its memory and descriptors. In
// the end, both sinks must equal the source.

import { resolve } from "node:path";
import { Command } from "commander";
import { DemoStage } from "../src/demo/demo-stage.ts";
import { isProven, verify } from "../src/demo/demo-verification.ts";
import { runLoad } from "../src/demo/shop-load.ts";
import { compiledBinary } from "../test/support/program/compiled-binary.ts";
import { wholeNumberFrom } from "../test/support/program/whole-number.ts";
import { readResources, readUsage } from "./measure/process-usage.ts";
import { drawChart, type Sample } from "./measure/soak-chart.ts";

const program = new Command("soak")
  .description("Measures the service's memory and descriptors under load over a long time.")
  .option("--minutes <number>", "how long", wholeNumberFrom(1), 60)
  .option("--pause <ms>", "between two transactions at the source", wholeNumberFrom(0), 20)
  .option("--picture <file>", "the file for the chart, as SVG", "docs/soak.svg")
  .parse();
const { minutes, pause, picture } = program.opts<{ minutes: number; pause: number; picture: string }>();
const sampleMs = 5_000;

async function sampleResources(stage: DemoStage, signal: AbortSignal): Promise<readonly Sample[]> {
  const { pid = 0 } = stage.service;
  const samples: Sample[] = [];
  const startedAt = performance.now();
  while (!signal.aborted) {
    const minute = (performance.now() - startedAt) / 60_000;
    samples.push({ minute, ...readResources(pid) });
    await Bun.sleep(sampleMs);
  }
  return samples;
}

const setUp = { scale: 0.2, signal: AbortSignal.timeout(60_000), announce: console.log };
await using stage = await DemoStage.setUp({ ...setUp, command: [await compiledBinary()] });
await stage.createConnectors();
const client = await stage.connectToSource();
const signal = AbortSignal.timeout(minutes * 60_000);
let rows = 0;
let transactions = 0;
const onCommit = (count: number) => {
  rows += count;
  transactions++;
};
const cpuBefore = readUsage(stage.service.pid ?? 0)?.cpuSeconds ?? 0;
const [samples] = await Promise.all([
  sampleResources(stage, signal),
  runLoad(client, { pauseMs: pause, signal, onCommit }),
]);
await client.end();
const cpuShare = ((readUsage(stage.service.pid ?? 0)?.cpuSeconds ?? 0) - cpuBefore) / (minutes * 60);
const proven = isProven(await verify(stage, AbortSignal.timeout(600_000)));
const numbers = `${rows.toLocaleString("en-US")} rows in ${transactions.toLocaleString("en-US")} transactions over ${minutes} minutes`;
await Bun.write(resolve(picture), drawChart(samples, `One service, two connectors: ${numbers}`));
const inMegabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
const peakMemory = (from: number, to: number) => {
  const part = samples.slice(Math.floor(samples.length * from), Math.ceil(samples.length * to));
  return inMegabytes(Math.max(...part.map(({ residentBytes }) => residentBytes)));
};
console.log(
  `${numbers}; ${(100 * cpuShare).toFixed(0)} % of a core; both sinks ${proven ? "equal" : "differ from"} the source.`,
);
console.log(
  `Most memory in the first, second and last third: ${peakMemory(0, 1 / 3)}, ${peakMemory(1 / 3, 2 / 3)}, ${peakMemory(2 / 3, 1)}; ` +
    `descriptors ${samples[0]?.descriptors} to ${samples.at(-1)?.descriptors}.`,
);
console.log(picture);
process.exitCode = proven ? 0 : 1;
