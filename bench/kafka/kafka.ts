// The Kafka benchmarks, with a broker on this machine: a backlog and the latency in each format, and the copy of a table.
// They compare with a stream that discards everything and, on request, with Debezium Server.

import { KafkaCluster } from "../../test/support/kafka/kafka-cluster.ts";
import { SchemaRegistryDouble } from "../../test/support/rows/schema-registry.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Contender } from "../contenders/contender.ts";
import { DiscardingContender } from "../contenders/discarding-contender.ts";
import { MillraceService } from "../contenders/millrace-service.ts";
import { fill, type Load, thousandInsertsEach } from "../loads.ts";
import { measured, measureLoad } from "../measure/measure.ts";
import type { Measurement } from "../measure/report.ts";
import type { DebeziumDistribution } from "./debezium-distribution.ts";
import { DebeziumServer } from "./debezium-server.ts";
import { type KafkaCase, kafkaCases } from "./kafka-cases.ts";
import { measureKafkaLatency } from "./kafka-latency.ts";
import {
  formatKafka,
  formatKafkaTable,
  type KafkaContender,
  type KafkaMeasurement,
  type KafkaSummary,
  summariseKafka,
} from "./kafka-report.ts";
import { kafkaTarget } from "./kafka-target.ts";
import { requireAllRows } from "./kafka-topics.ts";

interface KafkaRequest {
  readonly rows: number;
  readonly rounds: number;
  readonly isWanted: (name: string) => boolean;
  /** The command that runs the service. */
  readonly command: readonly string[];
  /** Null: not to be measured. */
  readonly debezium: DebeziumDistribution | null;
}

/** What all measurements of a run share. */
interface Stage {
  readonly servers: BenchServers;
  readonly cluster: KafkaCluster;
  readonly registryUrl: string;
  readonly request: KafkaRequest;
  /** Names of topics that nobody else has. */
  readonly nextPrefix: () => string;
}

type Step = () => Promise<void>;

/** Measures what is wanted, in rounds through all of it, and prints the results. */
export async function measureKafka(
  servers: BenchServers,
  request: KafkaRequest,
): Promise<readonly KafkaSummary[]> {
  const wanted = kafkaCases.filter(
    ({ name, needsPeer }) => request.isWanted(name) && (!needsPeer || request.debezium !== null),
  );
  if (wanted.length === 0) return [];
  await using cluster = await KafkaCluster.start({ brokers: 1 });
  await using registry = new SchemaRegistryDouble();
  let prefixes = 0;
  const nextPrefix = () => `bench${++prefixes}`;
  const stage: Stage = { servers, cluster, registryUrl: registry.url, request, nextPrefix };
  const measurements: KafkaMeasurement[] = [];
  const streamRates: number[] = [];
  const record = (measurement: KafkaMeasurement) => {
    measurements.push(measurement);
    console.log(`${measurement.case}, ${measurement.by}: ${Math.round(measurement.rate)} messages/s`);
  };
  const steps = [
    ...(wanted.some(({ load }) => load === "stream")
      ? [async () => void streamRates.push(await measureDiscarding(stage))]
      : []),
    ...wanted.flatMap((each) => caseSteps(stage, each, record)),
  ];
  await inRounds(steps, request.rounds);
  const summaries = wanted.flatMap(({ name, load, goals }) =>
    summariseKafka(
      measurements.filter((each) => each.case === name),
      load === "stream" ? streamRates : [],
      goals,
    ),
  );
  for (const summary of summaries) console.log(formatKafka(summary));
  console.log(`\n${formatKafkaTable(summaries)}`);
  return summaries;
}

/** Every other round goes through them the other way around, so that the order does not decide. */
async function inRounds(steps: readonly Step[], rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const step of round % 2 === 0 ? steps : steps.toReversed()) await step();
    console.log(`round ${round + 1} of ${rounds} is done`);
  }
}

function caseSteps(
  stage: Stage,
  each: KafkaCase,
  record: (measurement: KafkaMeasurement) => void,
): readonly Step[] {
  const { debezium } = stage.request;
  const own = each.load === "stream" ? measureStream : measureCopy;
  const peer = each.load === "stream" ? measureDebeziumStream : measureDebeziumCopy;
  return [
    async () => record(await own(stage, each)),
    ...(each.hasPeer && debezium ? [async () => record(await peer(stage, each, debezium))] : []),
  ];
}

async function measureDiscarding({ servers, request }: Stage): Promise<number> {
  const { count, seconds } = await measureLoad(
    servers,
    async () => new DiscardingContender(servers),
    streamLoad(request.rows),
  );
  return count / seconds;
}

async function measureStream(stage: Stage, each: KafkaCase): Promise<KafkaMeasurement> {
  const { servers, cluster, registryUrl, request } = stage;
  const start = (prefix: string, config: KafkaCase["config"]) =>
    MillraceService.start(
      servers,
      kafkaTarget(cluster, prefix, each.format(registryUrl), config),
      request.command,
    );
  return await measureStreamOf(stage, each, "millrace", {
    backlog: (prefix) => start(prefix, each.config),
    latency: (prefix) => start(prefix, { ...each.config, linger_ms: 5 }),
  });
}

async function measureDebeziumStream(
  stage: Stage,
  each: KafkaCase,
  distribution: DebeziumDistribution,
): Promise<KafkaMeasurement> {
  const { servers, cluster } = stage;
  return await measureStreamOf(stage, { ...each, isExactlyOnce: false }, "debezium", {
    backlog: (prefix) => DebeziumServer.make(servers, cluster, distribution, { prefix }),
    latency: (prefix) => DebeziumServer.make(servers, cluster, distribution, { prefix, isPrompt: true }),
  });
}

async function measureStreamOf(
  { servers, cluster, request, nextPrefix }: Stage,
  each: KafkaCase,
  by: KafkaContender,
  start: Readonly<Record<"backlog" | "latency", (prefix: string) => Promise<Contender>>>,
): Promise<KafkaMeasurement> {
  const [prefix, latencyPrefix] = [nextPrefix(), nextPrefix()];
  const measurement = await measureLoad(servers, () => start.backlog(prefix), streamLoad(request.rows));
  await requireAllRows(cluster, prefix, measurement.count, each.isExactlyOnce);
  const latency = await measureKafkaLatency(servers, cluster, latencyPrefix, () =>
    start.latency(latencyPrefix),
  );
  return { ...figuresOf(each, by, measurement), ...latency };
}

async function measureCopy(stage: Stage, each: KafkaCase): Promise<KafkaMeasurement> {
  const { servers, cluster, registryUrl, request, nextPrefix } = stage;
  const prefix = nextPrefix();
  await fillSource(servers, request.rows);
  const target = kafkaTarget(cluster, prefix, each.format(registryUrl), each.config);
  await using service = await MillraceService.start(servers, target, request.command);
  const measurement = await measured(servers, service, each.name, request.rows, () => service.begin());
  await service.end();
  await requireAllRows(cluster, prefix, request.rows, each.isExactlyOnce);
  return figuresOf(each, "millrace", measurement);
}

/** From when it begins to read the tables, which it does in the order of their names. */
async function measureDebeziumCopy(
  { servers, cluster, request, nextPrefix }: Stage,
  each: KafkaCase,
  distribution: DebeziumDistribution,
): Promise<KafkaMeasurement> {
  const prefix = nextPrefix();
  await fillSource(servers, request.rows);
  const marker = await servers.writeMarker();
  await using server = await DebeziumServer.make(servers, cluster, distribution, { prefix });
  await server.prepareCopy();
  const measurement = await measured(servers, server, each.name, request.rows, async () => {
    await server.resume();
    await server.untilMarkerArrives(marker);
  });
  await server.end();
  await requireAllRows(cluster, prefix, request.rows, false);
  return figuresOf(each, "debezium", measurement);
}

function streamLoad(rows: number): Load {
  return thousandInsertsEach(Math.max(1, Math.round(rows / 1000)));
}

async function fillSource(servers: BenchServers, rows: number): Promise<void> {
  await servers.recreate();
  await servers.source.query(`${fill(rows)}; analyze`, database);
}

function figuresOf(
  { name }: KafkaCase,
  by: KafkaContender,
  { count, seconds, service }: Measurement,
): KafkaMeasurement {
  return {
    case: name,
    by,
    rate: count / seconds,
    peakBytes: service?.peakBytes ?? 0,
    cpuSecondsPerMillion: ((service?.cpuSeconds ?? 0) * 1e6) / count,
  };
}
