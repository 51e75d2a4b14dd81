// `bun run bench`: how fast a backlog is worked off, and how late a commit is seen, beside Postgres' own subscription on the
// same servers in the same run, in turns. `bun run bench --help` tells its arguments.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Command } from "commander";
import { ownCommand } from "../src/demo/service-process.ts";
import { BenchServers, database } from "./bench-servers.ts";
import type { Contender, ContenderName, Copier, CopierName } from "./contender.ts";
import { type CopyLoad, type CopySource, copySources } from "./copy-loads.ts";
import { formatCopies } from "./copy-report.ts";
import { DiscardingContender } from "./discarding-contender.ts";
import { type Latency, measureLatency } from "./latency.ts";
import { fill, type Goal, loads } from "./loads.ts";
import { measured, measureLoad } from "./measure.ts";
import { MillraceService } from "./millrace-service.ts";
import { NativeSubscription } from "./native-subscription.ts";
import { Pgcopydb } from "./pgcopydb.ts";
import { PipedCopy } from "./piped-copy.ts";
import {
  describeMachine,
  formatLatency,
  formatSummary,
  heading,
  type LoadSummary,
  type Measurement,
  summarise,
} from "./report.ts";
import { postgresTarget, webhookTarget } from "./targets.ts";
import { measureWebhooks } from "./webhooks.ts";

interface BenchOptions {
  readonly rows: number;
  readonly rounds: number;
  readonly only?: string;
  readonly by: readonly ContenderName[];
  readonly json: string;
  readonly server?: number;
}

type Start = () => Promise<Contender>;
type StartCopier = () => Promise<Copier>;

const copyName = "copy of a table";
const latencyName = "latency";
const latencyPerSecond = 2000;
const copierNames: readonly CopierName[] = ["psql", "pgcopydb"];
const contenderNames: readonly ContenderName[] = [
  "postgres",
  "millrace",
  "discard",
  "webhook",
  ...copierNames,
];

const options = new Command("bench")
  .description("Measures copy, stream and latency beside Postgres' own subscription, in turns.")
  .option("--rows <number>", "rows of the large loads; the others are a part of it", count, 1_000_000)
  .option("--rounds <number>", "how often each is measured; the median counts", count, 5)
  .option(
    "--only <text>",
    "only loads whose name holds this text; `copies` and `webhooks` are measured only so",
  )
  .option("--by <names>", `which of these, with commas: ${contenderNames.join(", ")}`, names, [
    "postgres",
    "millrace",
    "discard",
    ...copierNames,
  ])
  .option("--server <major>", "version of both servers, where it is not the usual one", count)
  .option("--json <file>", "where the results go", "bench/results/latest.json")
  .parse()
  .opts<BenchOptions>();

await run(options);
process.exit();

async function run({ rows, rounds, only, by, json, server }: BenchOptions): Promise<void> {
  await using servers = await BenchServers.start(server);
  const version = await servers.version();
  const machine = `${describeMachine()}, PostgreSQL ${version}`;
  console.log(`${machine}\n\n${heading}`);
  const isWanted = (name: string) => only === undefined || name.includes(only);
  const streaming = by.filter((name): name is Exclude<ContenderName, CopierName> => !isCopierName(name));
  const starts = streaming.map((name) => contenders(servers)[name]);
  const measurements: Measurement[] = [];
  const summaries: LoadSummary[] = [];
  const inTurns = async <Begin>(
    name: string,
    goal: Goal,
    begins: readonly Begin[],
    once: (begin: Begin) => Promise<Measurement | null>,
  ) => {
    const own: Measurement[] = [];
    for (let round = 0; round < rounds; round++) {
      // There and back: who comes after whom must not decide.
      for (const begin of round % 2 === 0 ? begins : begins.toReversed()) {
        const measurement = await once(begin);
        if (measurement) own.push(measurement);
      }
    }
    const summary = summarise(name, goal, own);
    measurements.push(...own);
    summaries.push(summary);
    console.log(formatSummary(summary));
  };
  const measure = async (name: string, goal: Goal, once: (start: Start) => Promise<Measurement | null>) => {
    if (isWanted(name)) await inTurns(name, goal, starts, once);
  };
  for (const source of only === undefined ? [] : copySources(rows)) {
    const wanted = source.loads.filter(({ name }) => isWanted(name));
    if (wanted.length === 0) continue;
    await servers.renew();
    await servers.source.query(`${source.sql}; analyze`, database);
    for (const load of wanted) {
      const copiers = load.by.flatMap(
        (name) => (isAsked(by, name) && copierOf(servers, version, source, name)) || [],
      );
      await inTurns(load.name, load.goal, copiers, (start) => measureCopies(servers, start, load));
    }
  }
  const copies = [...summaries];
  await measure(copyName, {}, (start) => measureCopy(servers, start, rows));
  for (const load of loads(rows)) {
    await measure(load.name, load.goal, (start) => measureLoad(servers, start, load));
  }
  const webhooks =
    only === undefined
      ? []
      : await measureWebhooks(servers, { rows, rounds, isWanted, command: serviceCommand() });
  const latencies = isWanted(latencyName)
    ? await latenciesOf(servers, starts, rows < 1_000_000 ? 5 : 20)
    : [];
  await mkdir(dirname(resolve(json)), { recursive: true });
  const at = new Date().toISOString();
  await Bun.write(
    json,
    `${JSON.stringify({ at, machine, rounds, summaries, latencies, webhooks, measurements }, null, 2)}\n`,
  );
  if (copies.length > 0) console.log(`\n${formatCopies(copies)}`);
  console.log(`\n${json}`);
}

/** How each is started; a new one for each load, so that none begins warm. */
function contenders(servers: BenchServers): Readonly<Record<Exclude<ContenderName, CopierName>, Start>> {
  return {
    postgres: async () => new NativeSubscription(servers),
    millrace: async () => MillraceService.start(servers, await postgresTarget(servers), serviceCommand()),
    discard: async () => new DiscardingContender(servers),
    webhook: async () => MillraceService.start(servers, await webhookTarget(), serviceCommand()),
  };
}

/** Null: it copies nothing, or is not on this machine. */
function copierOf(
  servers: BenchServers,
  version: string,
  source: CopySource,
  name: ContenderName,
): StartCopier | null {
  const more = source.tables.filter((table) => table !== "bench");
  switch (name) {
    case "discard":
      return null;
    case "postgres":
      return async () => new NativeSubscription(servers, more);
    case "psql":
      return PipedCopy.find() === null ? null : async () => new PipedCopy(servers, source.tables);
    case "pgcopydb":
      return Pgcopydb.isFor(version) ? async () => new Pgcopydb(servers) : null;
    default:
      return contenders(servers)[name];
  }
}

/** Where copies go to is the load's matter: both are millrace. */
function isAsked(by: readonly ContenderName[], name: ContenderName): boolean {
  return by.includes(name === "webhook" ? "millrace" : name) || by.includes(name);
}

function isCopierName(name: ContenderName): name is CopierName {
  return copierNames.some((copier) => copier === name);
}

/** The source stays as it is: to fill it takes longer than to copy it. */
async function measureCopies(
  servers: BenchServers,
  start: StartCopier,
  load: CopyLoad,
): Promise<Measurement | null> {
  await using copier = await start();
  await servers.renewSink();
  try {
    const measurement = await measured(servers, copier, load.name, load.count, () => copier.begin());
    await copier.end();
    return measurement;
  } catch (error) {
    // A program of somebody else's may not get on with these servers: the others are measured still.
    if (!isCopierName(copier.name)) throw error;
    console.log(String(error));
    return null;
  }
}

/** Null: it copies nothing. */
async function measureCopy(servers: BenchServers, start: Start, rows: number): Promise<Measurement | null> {
  await using contender = await start();
  if (contender.name === "discard") return null;
  await servers.renew();
  await servers.source.query(`${fill(rows)}; analyze`, database);
  const measurement = await measured(servers, contender, copyName, rows, () => contender.begin());
  await contender.end();
  return measurement;
}

async function latenciesOf(
  servers: BenchServers,
  starts: readonly Start[],
  seconds: number,
): Promise<readonly Latency[]> {
  const latencies: Latency[] = [];
  console.log("");
  for (const start of starts) {
    await using contender = await start();
    if (contender.name !== "postgres" && contender.name !== "millrace") continue;
    const latency = await measureLatency(servers, contender, latencyPerSecond, seconds);
    latencies.push(latency);
    console.log(formatLatency(latency));
  }
  return latencies;
}

/** The compiled program where it was built, as users run it; else the sources. */
function serviceCommand(): readonly string[] {
  const binary = resolve(import.meta.dirname, "..", "dist", "millrace");
  return existsSync(binary) ? [binary] : ownCommand();
}

function count(text: string): number {
  const value = Number(text.replaceAll("_", ""));
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`not a number: ${text}`);
  return value;
}

function names(text: string): readonly ContenderName[] {
  return text.split(",").map((part) => {
    const name = contenderNames.find((known) => known === part.trim());
    if (!name) throw new Error(`not one of ${contenderNames.join(", ")}: ${part}`);
    return name;
  });
}
