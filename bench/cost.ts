// `bun run cost` measures the idle service's start-up time, memory and CPU, and prints them as a table. It measures the
// compiled program from outside: by its HTTP answers and by Linux' /proc.

import { statSync } from "node:fs";
import { Command } from "commander";
import { compiledBinary } from "../test/support/program/compiled-binary.ts";
import { wholeNumberFrom } from "../test/support/program/whole-number.ts";
import { CostStage, type StateKind } from "./cost-stage.ts";
import { readResources, readUsage } from "./measure/process-usage.ts";
import { median } from "./measure/report.ts";

const options = new Command("cost")
  .description("Measures the idle service, and how soon it is ready.")
  .option("--starts <number>", "how often it is started for each figure", wholeNumberFrom(1), 5)
  .option("--connectors <number>", "connectors of the large set-up", wholeNumberFrom(1), 100)
  .option("--settle <seconds>", "wait before an idle service is measured", wholeNumberFrom(0), 45)
  .option("--watch <seconds>", "how long its CPU is measured", wholeNumberFrom(1), 120)
  .parse()
  .opts<{ starts: number; connectors: number; settle: number; watch: number }>();

interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: "ms" | "MB" | "% of a core";
  /** The value should stay below this. */
  readonly goal?: number;
}

const megabytes = (bytes: number) => bytes / 1e6;

async function measureStarts(
  stage: CostStage,
  what: string,
  state: StateKind,
  isFresh: boolean,
): Promise<Figure> {
  const times: number[] = [];
  let location = await stage.newState(state);
  for (let i = 0; i < options.starts; i++) {
    if (isFresh && i > 0) location = await stage.newState(state);
    const startedAt = performance.now();
    await using service = await stage.serve(location);
    // With existing state, the first start only creates that state.
    if (isFresh || i > 0) times.push(performance.now() - startedAt);
    await service.stop();
  }
  return { what, value: median(times), unit: "ms" };
}

async function measureMemory(
  stage: CostStage,
  state: StateKind,
  sink: "none" | "postgres" | "webhook",
): Promise<Figure> {
  await using service = await stage.serve(await stage.newState(state));
  if (sink !== "none") await stage.connect(service, [sink]);
  await Bun.sleep(options.settle * 1000);
  const setUps = {
    none: "no connector",
    postgres: "one connector to Postgres",
    webhook: "one connector to a webhook",
  };
  return {
    what: `Memory with ${setUps[sink]}, state ${stateNames[state]}`,
    value: megabytes(readResources(service.pid ?? 0).residentBytes),
    unit: "MB",
    ...(state === "postgres" && sink !== "none" ? { goal: 150 } : {}),
  };
}

async function measureMany(stage: CostStage): Promise<readonly Figure[]> {
  await using service = await stage.serve(await stage.newState("embedded"));
  const kinds = Array.from({ length: options.connectors }, (_, i) => (i % 2 === 0 ? "postgres" : "webhook"));
  await stage.connect(service, kinds);
  await Bun.sleep(options.settle * 1000);
  const cpu = () => readUsage(service.pid ?? 0)?.cpuSeconds ?? 0;
  const before = cpu();
  const startedAt = performance.now();
  await Bun.sleep(options.watch * 1000);
  const share = (cpu() - before) / ((performance.now() - startedAt) / 1000);
  const { residentBytes } = readResources(service.pid ?? 0);
  const what = `${options.connectors} idle connectors, half of them webhooks`;
  return [
    { what: `Memory with ${what}`, value: megabytes(residentBytes), unit: "MB", goal: 1000 },
    { what: `CPU with ${what}`, value: 100 * share, unit: "% of a core", goal: 5 },
  ];
}

const stateNames = { embedded: "embedded", postgres: "in `DATABASE_URL`" } as const;

function format({ what, value, unit, goal }: Figure): string {
  const shown = `${value.toFixed(unit === "% of a core" ? 1 : 0)} ${unit}`;
  return `| ${what} | ${shown} | ${goal === undefined ? "" : `${goal} ${unit}`} |`;
}

const binary = await compiledBinary();
await using stage = await CostStage.start(binary);
const figures: Figure[] = [
  { what: "Size of the program", value: megabytes(statSync(binary).size), unit: "MB" },
  await measureStarts(stage, "First start in an empty directory, until ready", "embedded", true),
  await measureStarts(stage, "Later start, state embedded", "embedded", false),
  await measureStarts(stage, "First start in an empty database (`DATABASE_URL`)", "postgres", true),
  await measureStarts(stage, "Later start, state in `DATABASE_URL`", "postgres", false),
  await measureMemory(stage, "embedded", "none"),
  await measureMemory(stage, "postgres", "none"),
  await measureMemory(stage, "postgres", "postgres"),
  await measureMemory(stage, "postgres", "webhook"),
  ...(await measureMany(stage)),
];
console.log(["| Cost | Measured | Goal |", "|---|---:|---:|", ...figures.map(format)].join("\n"));
const missed = figures.filter(({ value, goal }) => goal !== undefined && value >= goal);
process.exitCode = missed.length === 0 ? 0 : 1;
