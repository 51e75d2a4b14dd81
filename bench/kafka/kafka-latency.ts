// The time from before a commit at the source until a reader of committed messages has the row, on the same clock.

import { Consumer } from "@platformatic/kafka";
import type { KafkaCluster } from "../../test/support/kafka/kafka-cluster.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Contender } from "../contenders/contender.ts";
import { percentile, writeSteadily } from "../measure/latency.ts";
import { topicOf } from "./kafka-topics.ts";
import { idOfKey } from "./row-keys.ts";

const perSecond = 1000;
const warmUpSeconds = 2;
const seconds = 5;

export interface KafkaLatency {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export async function measureKafkaLatency(
  servers: BenchServers,
  cluster: KafkaCluster,
  prefix: string,
  start: () => Promise<Contender>,
): Promise<KafkaLatency> {
  await using contender = await start();
  await servers.recreate();
  await contender.begin();
  // Warm up: one-time costs are not part of a steady load.
  const first = perSecond * warmUpSeconds;
  await writeSteadily(servers, perSecond, first, 0);
  await contender.untilMarkerArrives(await servers.writeMarker());
  const arrivals = new Map<number, number>();
  const consumer = await follow(cluster, prefix, (id) => {
    if (!arrivals.has(id)) arrivals.set(id, performance.timeOrigin + performance.now());
  });
  await writeSteadily(servers, perSecond, perSecond * seconds, first);
  await contender.untilMarkerArrives(await servers.writeMarker());
  const committed = await servers.source.query<{ id: number; ms: number }>(
    `select id::int4 as id, extract(epoch from at)::float8 * 1000 as ms from bench_latency where id >= ${first}`,
    database,
  );
  // The marker was read by another reader.
  for (let tries = 0; arrivals.size < committed.length && tries < 100; tries++) await Bun.sleep(100);
  await consumer.close(true);
  await contender.end();
  if (arrivals.size !== committed.length)
    throw new Error(`${arrivals.size} of ${committed.length} rows of the latency came`);
  const latencies = committed
    .map(({ id, ms }) => (arrivals.get(id) ?? Number.NaN) - ms)
    .sort((a, b) => a - b);
  return { p50Ms: percentile(latencies, 0.5), p99Ms: percentile(latencies, 0.99) };
}

/** Resolves when it reads. */
async function follow(
  cluster: KafkaCluster,
  prefix: string,
  onRow: (id: number) => void,
): Promise<Consumer<Buffer, Buffer, Buffer, Buffer>> {
  const consumer = new Consumer<Buffer, Buffer, Buffer, Buffer>({
    clientId: "bench",
    groupId: `${prefix}-${crypto.randomUUID()}`,
    bootstrapBrokers: cluster.bootstrap,
    isolationLevel: 1,
    maxWaitTime: 50,
    minBytes: 1,
    autocommit: false,
  });
  const stream = await consumer.consume({ topics: [topicOf(prefix, "bench_latency")], mode: "latest" });
  stream.on("data", ({ key }: { key: Buffer }) => onRow(idOfKey(key)));
  // It joins its group, and asks where the topic ends.
  await Bun.sleep(1000);
  return consumer;
}
