// What the Kafka benchmarks look at in topics: whether a row has come, whether all have. Apache's client reads them, for
// millrace and for Debezium Server alike.

import type { KafkaCluster } from "../../test/support/kafka/kafka-cluster.ts";
import { awaitKey, countTopic } from "../../test/support/kafka/kafka-reader.ts";
import { keyEndings } from "./row-keys.ts";

const committed = { isolation: "read_committed" } as const;
/** After this time whoever waits may look whether the connector has failed. */
const waitMs = 500;

export function topicOf(prefix: string, table: string): string {
  return `${prefix}.public.${table}`;
}

/** Whether the row of `bench_marker` is there; waits for it a while. */
export async function hasMarker(cluster: KafkaCluster, prefix: string, marker: number): Promise<boolean> {
  return await awaitKey(cluster, topicOf(prefix, "bench_marker"), keyEndings(marker), waitMs, committed);
}

/** Throws unless each row of `bench` is there, and, if `isExactlyOnce`, once. The topic is deleted, for it is large. */
export async function requireAllRows(
  cluster: KafkaCluster,
  prefix: string,
  rows: number,
  isExactlyOnce: boolean,
): Promise<void> {
  const topic = topicOf(prefix, "bench");
  const { messages, keys } = await countTopic(cluster, topic, committed);
  if (keys !== rows || messages < rows || (isExactlyOnce && messages !== rows))
    throw new Error(`${topic} has ${messages} messages of ${keys} rows, and ${rows} rows were written`);
  await cluster.deleteTopic(topic);
}
