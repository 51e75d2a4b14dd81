// The Kafka benchmarks, with a broker on this machine: a backlog in each format, the copy of a table, and the latency of a commit until a
// reader of committed messages has it. They compare with the stream without a sink.

import { Consumer } from "@platformatic/kafka";
import type { JsonBody } from "../src/demo/api-client.ts";
import { KafkaCluster } from "../test/support/kafka/kafka-cluster.ts";
import { readTopic } from "../test/support/kafka/kafka-reader.ts";
import { SchemaRegistryDouble } from "../test/support/schema-registry.ts";
import { type BenchServers, database } from "./bench-servers.ts";
import { DiscardingContender } from "./discarding-contender.ts";
import { percentile, writeSteadily } from "./latency.ts";
import { fill, thousandInsertsEach } from "./loads.ts";
import { measured, measureLoad } from "./measure.ts";
import { MillraceService, type Target } from "./millrace-service.ts";
import { median } from "./report.ts";
import type { WebhookResult } from "./webhooks.ts";

interface KafkaRequest {
  readonly rows: number;
  readonly rounds: number;
  readonly isWanted: (name: string) => boolean;
  /** The command that runs the service. */
  readonly command: readonly string[];
}

interface KafkaCase {
  readonly name: string;
  readonly format: (registry: string) => JsonBody;
  readonly config?: JsonBody;
  /** Rows per second. */
  readonly goal: number;
}

const avroSerde = (url: string) => ({
  format_config: { value_serde: { avro: { schema_registry: { url } } } },
});
const cases: readonly KafkaCase[] = [
  { name: "kafka: native", format: () => ({ native: {} }), goal: 100_000 },
  { name: "kafka: Debezium", format: () => ({ debezium: {} }), goal: 80_000 },
  { name: "kafka: native, Avro", format: (url) => ({ native: avroSerde(url) }), goal: 80_000 },
  { name: "kafka: Debezium, Avro", format: (url) => ({ debezium: avroSerde(url) }), goal: 80_000 },
  {
    ...{ name: "kafka: native, no transactions", format: () => ({ native: {} }), goal: 100_000 },
    config: { transactions: { enabled: false } },
  },
];
const latencyPerSecond = 1000;
const latencySeconds = 10;

/** Runs the requested cases, and prints each result. */
export async function measureKafka(
  servers: BenchServers,
  request: KafkaRequest,
): Promise<readonly WebhookResult[]> {
  const results: WebhookResult[] = [];
  const record = (result: WebhookResult) => {
    results.push(result);
    console.log(`${result.name.padEnd(32)} ${result.text}`);
  };
  const copyName = "kafka: copy of a table";
  const latencyName = "kafka: latency";
  const wanted = cases.filter(({ name }) => request.isWanted(name));
  const isAny = wanted.length > 0 || request.isWanted(copyName) || request.isWanted(latencyName);
  if (!isAny) return results;
  await using cluster = await KafkaCluster.start({ brokers: 1 });
  await using registry = new SchemaRegistryDouble();
  for (const each of wanted) record(await measureCase(servers, cluster, registry.url, each, request));
  if (request.isWanted(copyName)) record(await measureCopy(servers, cluster, copyName, request));
  if (request.isWanted(latencyName))
    record(await measureLatency(servers, cluster, latencyName, request.command));
  return results;
}

let targets = 0;

export function kafkaTarget(
  cluster: KafkaCluster,
  format: JsonBody,
  config: JsonBody = {},
): Target & { prefix: string } {
  const prefix = `bench${++targets}`;
  const topic = `${prefix}.public.bench_marker`;
  return {
    name: "webhook",
    prefix,
    sink: {
      kafka: {
        connection: { brokers: cluster.bootstrap, config },
        ...{ format, topic_options: {}, name: prefix },
        topic_name_template: `${prefix}.{schema}.{table}`,
      },
    },
    hasMarker: async (marker) => {
      const messages = await readTopic(cluster, topic, { isolation: "read_committed" }).catch(() => []);
      return messages.some(({ key }) => key?.includes(String(marker)) || key?.at(-1) !== 125);
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

async function measureCase(
  servers: BenchServers,
  cluster: KafkaCluster,
  registry: string,
  { name, format, config, goal }: KafkaCase,
  { rows, rounds, command }: KafkaRequest,
): Promise<WebhookResult> {
  const load = thousandInsertsEach(Math.max(1, Math.round(rows / 1000)));
  const rates: number[] = [];
  const streams: number[] = [];
  const cpuSeconds: number[] = [];
  let peakBytes = 0;
  for (let round = 0; round < rounds; round++) {
    const start = () =>
      MillraceService.start(servers, kafkaTarget(cluster, format(registry), config), command);
    const { count, seconds, service } = await measureLoad(servers, start, load);
    rates.push(count / seconds);
    cpuSeconds.push(((service?.cpuSeconds ?? 0) * 1e6) / count);
    peakBytes = Math.max(peakBytes, service?.peakBytes ?? 0);
    const stream = await measureLoad(servers, async () => new DiscardingContender(servers), load);
    streams.push(stream.count / stream.seconds);
  }
  const [rate, ratio] = [median(rates), median(rates) / median(streams)];
  const text = [
    `${Math.round(rate).toLocaleString("en-US")} rows/s (${goal.toLocaleString("en-US")})`,
    `${ratio.toFixed(2)} of a stream (0.6)`,
    `${median(cpuSeconds).toFixed(1)} CPU s a million rows (8)`,
    `peak ${Math.round(peakBytes / 2 ** 20)} MB (256)`,
  ];
  const figures = { rate, ratio, cpuSecondsPerMillion: median(cpuSeconds), peakBytes };
  return { name, text: text.join(", "), figures };
}

async function measureCopy(
  servers: BenchServers,
  cluster: KafkaCluster,
  name: string,
  { rows, rounds, command }: KafkaRequest,
): Promise<WebhookResult> {
  const rates: number[] = [];
  let peakBytes = 0;
  for (let round = 0; round < rounds; round++) {
    await servers.recreate();
    await servers.source.query(`${fill(rows)}; analyze`, database);
    await using service = await MillraceService.start(servers, kafkaTarget(cluster, { native: {} }), command);
    const measurement = await measured(servers, service, name, rows, () => service.begin());
    rates.push(rows / measurement.seconds);
    peakBytes = Math.max(peakBytes, measurement.service?.peakBytes ?? 0);
    await service.end();
  }
  const rate = median(rates);
  const text = `${Math.round(rate).toLocaleString("en-US")} rows/s (150,000), peak ${Math.round(peakBytes / 2 ** 20)} MB (256)`;
  return { name, text, figures: { rate, peakBytes } };
}

/** From before the commit at the source until a reader of committed messages has it, on the same clock. */
async function measureLatency(
  servers: BenchServers,
  cluster: KafkaCluster,
  name: string,
  command: readonly string[],
): Promise<WebhookResult> {
  const target = kafkaTarget(cluster, { native: {} }, { linger_ms: 5 });
  await using service = await MillraceService.start(servers, target, command);
  await servers.recreate();
  await service.begin();
  const write = (seconds: number, first: number) =>
    writeSteadily(servers, latencyPerSecond, latencyPerSecond * seconds, first);
  // Warm up: one-time costs are not part of a steady load.
  await write(2, 0);
  await service.untilMarkerArrives(await servers.writeMarker());
  const consumer = new Consumer({
    ...{ clientId: "bench", groupId: target.prefix, bootstrapBrokers: [...cluster.bootstrap] },
    ...{ isolationLevel: 1, maxWaitTime: 50, minBytes: 1, autocommit: false },
  });
  const latencies: number[] = [];
  const stream = await consumer.consume({
    topics: [`${target.prefix}.public.bench_latency`],
    mode: "latest",
  });
  stream.on("data", ({ value }: { value: Buffer }) => {
    const { at } = JSON.parse(value.toString()) as { at: string };
    latencies.push(Date.now() - Date.parse(at));
  });
  await Bun.sleep(1000);
  await write(latencySeconds, latencyPerSecond * 2);
  await service.untilMarkerArrives(await servers.writeMarker());
  await Bun.sleep(500);
  await consumer.close(true);
  await service.end();
  latencies.sort((a, b) => a - b);
  const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)];
  const text = `p50 ${p50} ms (25), p99 ${p99} ms (80), ${latencies.length} rows at ${latencyPerSecond} a second`;
  return { name, text, figures: { p50Ms: p50, p99Ms: p99 } };
}
