// `bun run bench`: rows per second of copy and stream, beside Postgres' own subscription on the same servers in the
// same run. `bun run bench --help` tells its arguments.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Command } from "commander";
import { ownCommand } from "../src/demo/service-process.ts";
import { BenchServers, database } from "./bench-servers.ts";
import type { Contender } from "./contender.ts";
import { fill, type Load, loads } from "./loads.ts";
import { MillraceService } from "./millrace-service.ts";
import { NativeSubscription } from "./native-subscription.ts";
import { describeMachine, formatLine, heading, type Result, toJson } from "./report.ts";
import { postgresTarget, webhookTarget } from "./targets.ts";

interface BenchOptions {
  readonly rows: number;
  readonly singleRows: number;
  readonly only?: string;
  readonly by?: string;
  readonly json: string;
}

const snapshotName = "snapshot";

const options = new Command("bench")
  .description("Measures snapshot and stream, beside Postgres' own subscription.")
  .option("--rows <number>", "rows of each load", count, 1_000_000)
  .option("--single-rows <number>", "transactions of the load of one row each", count, 200_000)
  .option("--only <text>", "only loads whose name holds this text")
  .option("--by <name>", "only this one: postgres, millrace, webhook")
  .option("--json <file>", "where the results go", "bench/results/latest.json")
  .parse()
  .opts<BenchOptions>();

await run(options);
process.exit();

async function run({ rows, singleRows, only, by, json }: BenchOptions): Promise<void> {
  await using servers = await BenchServers.start();
  console.log(`${describeMachine()}\n\n${heading}`);
  const results: Result[] = [];
  const add = (result: Result) => {
    results.push(result);
    console.log(formatLine(result));
  };
  const isWanted = (name: string) => only === undefined || name.includes(only);
  const starts = contenders(servers, by);
  if (isWanted(snapshotName)) {
    for (const start of starts) {
      await using contender = await start();
      add(await measureSnapshot(servers, contender, rows));
    }
  }
  for (const load of loads(rows, singleRows)) {
    if (!isWanted(load.name)) continue;
    for (const start of starts) {
      await using contender = await start();
      add(await measureLoad(servers, contender, load));
    }
  }
  await mkdir(dirname(resolve(json)), { recursive: true });
  await Bun.write(json, toJson(results));
  console.log(`\n${json}`);
}

/** How each is started; a new one for each load, so that none begins warm. */
function contenders(servers: BenchServers, by: string | undefined): (() => Promise<Contender>)[] {
  const all: Readonly<Record<string, () => Promise<Contender>>> = {
    postgres: async () => new NativeSubscription(servers),
    millrace: async () => MillraceService.start(servers, await postgresTarget(servers), serviceCommand()),
    webhook: async () => MillraceService.start(servers, await webhookTarget(), serviceCommand()),
  };
  return Object.entries(all).flatMap(([name, start]) => (by === undefined || by === name ? [start] : []));
}

async function measureSnapshot(servers: BenchServers, contender: Contender, rows: number): Promise<Result> {
  await servers.renew();
  await servers.source.query(`${fill(rows)}; analyze`, database);
  const seconds = await timed(contender, () => contender.begin());
  const usage = contender.usage();
  await contender.end();
  return { contender: contender.name, load: snapshotName, rows, seconds, usage };
}

/** From the start of the paused contender to the load's last row at the sink. */
async function measureLoad(servers: BenchServers, contender: Contender, load: Load): Promise<Result> {
  await servers.renew();
  if (load.before) await servers.source.query(`${load.before}; analyze`, database);
  await contender.begin();
  await contender.pause();
  await load.write(servers.source);
  const marker = await servers.mark();
  const seconds = await timed(contender, async () => {
    await contender.resume();
    await contender.untilMarked(marker);
  });
  const usage = contender.usage();
  await contender.end();
  return { contender: contender.name, load: load.name, rows: load.rows, seconds, usage };
}

async function timed(contender: Contender, work: () => Promise<void>): Promise<number> {
  contender.usage();
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

/** The compiled program where it was built, as users run it; else the sources. */
function serviceCommand(): readonly string[] {
  const binary = resolve(import.meta.dirname, "..", "dist", "millrace");
  return existsSync(binary) ? [binary] : ownCommand();
}

function count(text: string): number {
  const value = Number(text.replaceAll("_", ""));
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`not a number of rows: ${text}`);
  return value;
}
