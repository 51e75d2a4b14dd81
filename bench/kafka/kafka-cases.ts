// What the Kafka benchmarks measure, and the goals of each.

import type { JsonBody } from "../../src/demo/api-client.ts";

export interface KafkaCase {
  readonly name: string;
  /** A stream is measured with its latency. */
  readonly load: "stream" | "copy";
  readonly format: (registry: string) => JsonBody;
  /** Of the producer, over its defaults. */
  readonly config?: JsonBody;
  /** Debezium Server does the same, where it is wanted. */
  readonly hasPeer?: boolean;
  /** Only measured for the comparison. */
  readonly needsPeer?: boolean;
  readonly isExactlyOnce: boolean;
  readonly goals: KafkaGoals;
}

export interface KafkaGoals {
  /** At least so many messages per second. */
  readonly rate?: number;
  /** At least this part of the rate of a stream that discards everything. */
  readonly ofStream?: number;
  /** At most, as the others below. */
  readonly cpuSecondsPerMillion?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  readonly peakBytes?: number;
}

const peakBytes = 256 * 2 ** 20;
const streamGoals = (rate: number): KafkaGoals => ({
  rate,
  ofStream: 0.6,
  cpuSecondsPerMillion: 8,
  p50Ms: 25,
  p99Ms: 80,
  peakBytes,
});
const avroSerde = (url: string) => ({
  format_config: { value_serde: { avro: { schema_registry: { url } } } },
});
const native = () => ({ native: {} });
const debezium = () => ({ debezium: {} });
const stream = { load: "stream", isExactlyOnce: true } as const;
const copy = { load: "copy", isExactlyOnce: true } as const;

export const kafkaCases: readonly KafkaCase[] = [
  { name: "kafka: native", ...stream, format: native, goals: streamGoals(100_000) },
  { name: "kafka: Debezium", ...stream, format: debezium, hasPeer: true, goals: streamGoals(80_000) },
  {
    name: "kafka: native, Avro",
    ...stream,
    goals: streamGoals(80_000),
    format: (url) => ({ native: avroSerde(url) }),
  },
  {
    name: "kafka: Debezium, Avro",
    ...stream,
    goals: streamGoals(80_000),
    format: (url) => ({ debezium: avroSerde(url) }),
  },
  {
    name: "kafka: native, no transactions",
    ...stream,
    format: native,
    goals: streamGoals(100_000),
    config: { transactions: { enabled: false } },
    isExactlyOnce: false,
  },
  { name: "kafka: copy", ...copy, format: native, goals: { rate: 150_000, peakBytes } },
  {
    name: "kafka: copy, Debezium",
    ...copy,
    format: debezium,
    goals: { peakBytes },
    hasPeer: true,
    needsPeer: true,
  },
];
