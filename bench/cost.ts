// `bun run cost`: what the service takes of time, memory and CPU when it has nothing to do, as a table. All of it is measured from
// outside, of the compiled program: by its answers over HTTP, and by what Linux says of its process.

import { statSync } from "node:fs";
import { Command } from "commander";
import { compiledBinary } from "../test/support/compiled-binary.ts";
import { CostStage, type StateKind } from "./cost-stage.ts";
import { readHeld, readUsage } from "./process-usage.ts";
import { median } from "./report.ts";

const options = new Command("cost")
  .description("Measures what the service takes when it is idle, and how soon it is ready.")
  .option("--starts <number>", "how often it is started for each figure", Number, 5)
  .option("--connectors <number>", "of the large set-up", Number, 100)
  .option("--settle <seconds>", "until what is idle is measured", Number, 45)
  .option("--watch <seconds>", "how long its CPU is measured", Number, 120)
  .parse()
  .opts<{ starts: number; connectors: number; settle: number; watch: number }>();

interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: "ms" | "MB" | "% of a core";
  /** Below which it is to stay. */
  readonly goal?: number;
}

const megabytes = (bytes: number) => bytes / 1e6;

async function starts(stage: CostStage, what: string, state: StateKind, isAnew: boolean): Promise<Figure> {
  const times: number[] = [];
  let place = await stage.place(state);
  for (let i = 0; i < options.starts; i++) {
    if (isAnew && i > 0) place = await stage.place(state);
    const begunAt = performance.now();
    await using service = await stage.serve(place);
    // The first one makes the state.
    if (isAnew || i > 0) times.push(performance.now() - begunAt);
    await service.stop();
  }
  return { what, value: median(times), unit: "ms" };
}

async function memory(
  stage: CostStage,
  state: StateKind,
  sink: "none" | "postgres" | "webhook",
): Promise<Figure> {
  await using service = await stage.serve(await stage.place(state));
  if (sink !== "none") await stage.connect(service, [sink]);
  await Bun.sleep(options.settle * 1000);
  const held = {
    none: "no connector",
    postgres: "one connector to Postgres",
    webhook: "one connector to a webhook",
  };
  return {
    what: `Memory with ${held[sink]}, state ${stateNames[state]}`,
    value: megabytes(readHeld(service.pid ?? 0).residentBytes),
    unit: "MB",
    ...(state === "postgres" && sink !== "none" ? { goal: 150 } : {}),
  };
}

async function many(stage: CostStage): Promise<readonly Figure[]> {
  await using service = await stage.serve(await stage.place("embedded"));
  const kinds = Array.from({ length: options.connectors }, (_, i) => (i % 2 === 0 ? "postgres" : "webhook"));
  await stage.connect(service, kinds);
  await Bun.sleep(options.settle * 1000);
  const cpu = () => readUsage(service.pid ?? 0)?.cpuSeconds ?? 0;
  const before = cpu();
  const begunAt = performance.now();
  await Bun.sleep(options.watch * 1000);
  const share = (cpu() - before) / ((performance.now() - begunAt) / 1000);
  const { residentBytes } = readHeld(service.pid ?? 0);
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
  await starts(stage, "First start in an empty directory, until ready", "embedded", true),
  await starts(stage, "Later start, state embedded", "embedded", false),
  await starts(stage, "First start in an empty database (`DATABASE_URL`)", "postgres", true),
  await starts(stage, "Later start, state in `DATABASE_URL`", "postgres", false),
  await memory(stage, "embedded", "none"),
  await memory(stage, "postgres", "none"),
  await memory(stage, "postgres", "postgres"),
  await memory(stage, "postgres", "webhook"),
  ...(await many(stage)),
];
console.log(["| Cost | Measured | Goal |", "|---|---:|---:|", ...figures.map(format)].join("\n"));
const missed = figures.filter(({ value, goal }) => goal !== undefined && value >= goal);
process.exitCode = missed.length === 0 ? 0 : 1;
