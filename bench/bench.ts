// `bun run bench` measures how fast a backlog is processed and the latency of a commit. It compares with Postgres' own
// subscription on the same servers in the same run, alternating between them. `bun run bench --help` lists the options.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Command } from "commander";
import { ownCommand } from "../src/demo/service-process.ts";
import { kafkaVersion } from "../test/support/kafka/kafka-jars.ts";
import { wholeNumberFrom } from "../test/support/program/whole-number.ts";
import { BenchServers, database } from "./bench-servers.ts";
import type { Contender, ContenderName, Copier, CopierName } from "./contenders/contender.ts";
import { DiscardingContender } from "./contenders/discarding-contender.ts";
import { MillraceService } from "./contenders/millrace-service.ts";
import { NativeSubscription } from "./contenders/native-subscription.ts";
import { Pgcopydb } from "./contenders/pgcopydb.ts";
import { PipedCopy } from "./contenders/piped-copy.ts";
import { postgresTarget, webhookTarget } from "./contenders/targets.ts";
import { type CopyLoad, type CopySource, copySources } from "./copy-loads.ts";
import { type DebeziumDistribution, debeziumVersion, findDebezium } from "./kafka/debezium-distribution.ts";
import { measureKafka } from "./kafka/kafka.ts";
import { fill, type Goal, loads } from "./loads.ts";
import { formatCopies } from "./measure/copy-report.ts";
import { type Latency, measureLatency } from "./measure/latency.ts";
import { measured, measureLoad } from "./measure/measure.ts";
import {
  describeMachine,
  formatLatency,
  formatSummary,
  heading,
  type LoadSummary,
  type Measurement,
  summarise,
} from "./measure/report.ts";
import { measureWebhooks } from "./webhooks.ts";

interface BenchOptions {
  readonly rows: number;
  readonly rounds: number;
  readonly only?: string;
  readonly by: readonly ContenderName[];
  readonly json: string;
  readonly server?: number;
  readonly embeddedState: boolean;
}

/** Contenders that run any load. */
type StreamerName = Exclude<ContenderName, CopierName | "kafka" | "debezium">;
type Start = () => Promise<Contender>;
type StartCopier = () => Promise<Copier>;

const copyName = "copy of a table";
const latencyName = "latency";
const latencyPerSecond = 2000;
const copierNames: readonly CopierName[] = ["psql", "pgcopydb"];
const contenderNames: readonly ContenderName[] = [
  "postgres",
  "millrace",
  "history",
  "discard",
  "webhook",
  "debezium",
  ...copierNames,
];

const options = new Command("bench")
  .description("Measures copy, stream and latency, alternating with Postgres' own subscription.")
  .option("--rows <number>", "rows of the large loads; the others are smaller", wholeNumberFrom(1), 1_000_000)
  .option("--rounds <number>", "how often each is measured; the median counts", wholeNumberFrom(1), 5)
  .option(
    "--only <text>",
    "only loads whose name contains this text; `copies`, `webhooks` and `kafka` are measured only on request",
  )
  .option(
    "--by <names>",
    `which of these, with commas: ${contenderNames.join(", ")} (with \`kafka\` only)`,
    names,
    ["postgres", "millrace", "discard", ...copierNames],
  )
  .option("--server <major>", "version of both servers, instead of the default", wholeNumberFrom(1))
  .option(
    "--embedded-state",
    "the service keeps its state in its own process, and not at the source's server",
    false,
  )
  .option("--json <file>", "the file for the results", "bench/results/latest.json")
  .parse()
  .opts<BenchOptions>();

const debezium = await debeziumIfWanted(options);
await run(options);
process.exit();

async function run({ rows, rounds, only, by, json, server, embeddedState }: BenchOptions): Promise<void> {
  await using servers = await BenchServers.start(server, embeddedState);
  const version = await servers.version();
  const machine = [`${describeMachine()}, PostgreSQL ${version}`, ...kafkaVersions(only)].join(", ");
  console.log(`${machine}\n\n${heading}`);
  const isWanted = (name: string) => only === undefined || name.includes(only);
  const streaming = by.filter(isStreamerName);
  const starts = streaming.map((name) => contenders(servers)[name]);
  const measurements: Measurement[] = [];
  const summaries: LoadSummary[] = [];
  const alternate = async <Candidate>(
    name: string,
    goal: Goal,
    candidates: readonly Candidate[],
    measureOne: (candidate: Candidate) => Promise<Measurement | null>,
  ) => {
    const own: Measurement[] = [];
    for (let round = 0; round < rounds; round++) {
      // Every other round runs in reverse order, so that the order of the contenders does not decide.
      for (const candidate of round % 2 === 0 ? candidates : candidates.toReversed()) {
        const measurement = await measureOne(candidate);
        if (measurement) own.push(measurement);
      }
    }
    const summary = summarise(name, goal, own);
    measurements.push(...own);
    summaries.push(summary);
    console.log(formatSummary(summary));
  };
  const measure = async (
    name: string,
    goal: Goal,
    measureOne: (start: Start) => Promise<Measurement | null>,
  ) => {
    if (isWanted(name)) await alternate(name, goal, starts, measureOne);
  };
  for (const source of only === undefined ? [] : copySources(rows)) {
    const wanted = source.loads.filter(({ name }) => isWanted(name));
    if (wanted.length === 0) continue;
    await servers.recreate();
    await servers.source.query(`${source.sql}; analyze`, database);
    for (const load of wanted) {
      const copiers = load.by.flatMap(
        (name) => (isRequested(by, name) && findCopier(servers, version, source, name)) || [],
      );
      await alternate(load.name, load.goal, copiers, (start) => measureCopies(servers, start, load));
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
  const kafka =
    only?.startsWith("kafka") === true
      ? await measureKafka(servers, { rows, rounds, isWanted, command: serviceCommand(), debezium })
      : [];
  const latencies = isWanted(latencyName)
    ? await measureLatencies(servers, starts, rows < 1_000_000 ? 5 : 20)
    : [];
  await mkdir(dirname(resolve(json)), { recursive: true });
  const at = new Date().toISOString();
  await Bun.write(
    json,
    `${JSON.stringify({ at, machine, rounds, summaries, latencies, webhooks, kafka, measurements }, null, 2)}\n`,
  );
  if (copies.length > 0) console.log(`\n${formatCopies(copies)}`);
  console.log(`\n${json}`);
}

/** Ends the process with what is missing, before anything is measured. */
async function debeziumIfWanted({ only, by }: BenchOptions): Promise<DebeziumDistribution | null> {
  if (!by.includes("debezium") || !only?.startsWith("kafka")) return null;
  try {
    return await findDebezium(process.env);
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}

/** Of what is measured with Kafka. */
function kafkaVersions(only: string | undefined): readonly string[] {
  if (!only?.startsWith("kafka")) return [];
  const ofDebezium = debezium ? [`Debezium Server ${debeziumVersion} on Java ${debezium.javaVersion}`] : [];
  return [`Kafka ${kafkaVersion}`, ...ofDebezium];
}

/** Starts each contender. Every load gets a new one, so that none starts warm. */
function contenders(servers: BenchServers): Readonly<Record<StreamerName, Start>> {
  return {
    postgres: async () => new NativeSubscription(servers),
    millrace: async () => MillraceService.start(servers, await postgresTarget(servers), serviceCommand()),
    history: async () =>
      MillraceService.start(servers, await postgresTarget(servers, "history"), serviceCommand()),
    discard: async () => new DiscardingContender(servers),
    webhook: async () => MillraceService.start(servers, await webhookTarget(), serviceCommand()),
  };
}

/** Null if the contender copies nothing, or is not installed. */
function findCopier(
  servers: BenchServers,
  version: string,
  source: CopySource,
  name: ContenderName,
): StartCopier | null {
  const more = source.tables.filter((table) => table !== "bench");
  switch (name) {
    case "discard":
    case "kafka":
    case "debezium":
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

/** Copies to a webhook count as millrace too: the load decides where its copies go. */
function isRequested(by: readonly ContenderName[], name: ContenderName): boolean {
  return by.includes(name === "webhook" ? "millrace" : name) || by.includes(name);
}

function isStreamerName(name: ContenderName): name is StreamerName {
  return !isCopierName(name) && name !== "kafka" && name !== "debezium";
}

function isCopierName(name: ContenderName): name is CopierName {
  return copierNames.some((copier) => copier === name);
}

/** Leaves the source as it is, because filling it takes longer than copying it. */
async function measureCopies(
  servers: BenchServers,
  start: StartCopier,
  load: CopyLoad,
): Promise<Measurement | null> {
  await using copier = await start();
  await servers.recreateSink();
  try {
    const measurement = await measured(servers, copier, load.name, load.count, () => copier.begin());
    await copier.end();
    return measurement;
  } catch (error) {
    // A third-party program may fail on these servers. Measure the others all the same.
    if (!isCopierName(copier.name)) throw error;
    console.log(String(error));
    return null;
  }
}

/** Null if the contender copies nothing. */
async function measureCopy(servers: BenchServers, start: Start, rows: number): Promise<Measurement | null> {
  await using contender = await start();
  if (contender.name === "discard") return null;
  await servers.recreate();
  await servers.source.query(`${fill(rows)}; analyze`, database);
  const measurement = await measured(servers, contender, copyName, rows, () => contender.begin());
  await contender.end();
  return measurement;
}

async function measureLatencies(
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

/** The compiled binary if it was built, as users run it; otherwise the sources. */
function serviceCommand(): readonly string[] {
  const binary = resolve(import.meta.dirname, "..", "dist", "millrace");
  return existsSync(binary) ? [binary] : ownCommand();
}

function names(text: string): readonly ContenderName[] {
  return text.split(",").map((part) => {
    const name = contenderNames.find((known) => known === part.trim());
    if (!name) throw new Error(`not one of ${contenderNames.join(", ")}: ${part}`);
    return name;
  });
}
