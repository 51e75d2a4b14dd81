// What the Kafka benchmarks print: medians, ratios, and whether goals are reached.

import { expect, test } from "bun:test";
import {
  formatKafka,
  formatKafkaTable,
  type KafkaMeasurement,
  summariseKafka,
} from "../../bench/kafka/kafka-report.ts";

const megabyte = 2 ** 20;
const goals = {
  rate: 80_000,
  ofStream: 0.6,
  cpuSecondsPerMillion: 8,
  p50Ms: 25,
  p99Ms: 80,
  peakBytes: 256 * megabyte,
};

function measurement(by: KafkaMeasurement["by"], rate: number, p99Ms: number): KafkaMeasurement {
  return {
    case: "kafka: Debezium",
    by,
    rate,
    cpuSecondsPerMillion: 7,
    p50Ms: 9,
    p99Ms,
    peakBytes: (rate / 1000) * megabyte,
  };
}

const measurements = [
  measurement("millrace", 90_000, 100),
  measurement("millrace", 110_000, 70),
  measurement("millrace", 100_000, 90),
  measurement("debezium", 25_000, 200),
];

test("rates and latencies are medians, the peak is the highest, and a goal that is not reached is named", () => {
  const [millrace, debezium] = summariseKafka(measurements, [130_000, 125_000, 120_000], goals);
  expect(millrace?.figures).toEqual({
    rate: 100_000,
    cpuSecondsPerMillion: 7,
    peakBytes: 110 * megabyte,
    p50Ms: 9,
    p99Ms: 90,
    ofStream: 0.8,
    ofDebezium: 4,
  });
  expect(millrace?.missed).toEqual(["p99Ms"]);
  expect(millrace && formatKafka(millrace)).toBe(
    "kafka: Debezium                millrace  100,000 messages/s (80,000), 4.00 of Debezium Server, 0.80 of a stream (0.6), " +
      "7.0 CPU s a million (8), p50 9 ms (25), p99 90 ms (80), peak 110 MB (256): missed p99",
  );
  expect(debezium && formatKafka(debezium)).toBe(
    "kafka: Debezium                debezium  25,000 messages/s, 0.20 of a stream, 7.0 CPU s a million, p50 9 ms, p99 200 ms, peak 25 MB",
  );
});

test("the table has a row for each, with goals in brackets", () => {
  const table = formatKafkaTable(summariseKafka(measurements, [125_000], goals));
  expect(table.split("\n").slice(2)).toEqual([
    "| Debezium | millrace | 100,000 (80,000) | 0.80 (0.6) | 7.0 s (8) | 9 ms (25) | 90 ms (80) | 110 MB (256) |",
    "| Debezium | Debezium Server | 25,000 | 0.20 | 7.0 s | 9 ms | 200 ms | 25 MB |",
  ]);
});

test("a copy has neither a latency nor a stream that it is compared with", () => {
  const copy: KafkaMeasurement = {
    case: "kafka: copy",
    by: "millrace",
    rate: 200_000,
    cpuSecondsPerMillion: 3,
    peakBytes: 300 * megabyte,
  };
  const [summary] = summariseKafka([copy], [], { rate: 150_000, peakBytes: 256 * megabyte });
  expect(summary && formatKafka(summary)).toBe(
    "kafka: copy                    millrace  200,000 messages/s (150,000), 3.0 CPU s a million, peak 300 MB (256): missed peak",
  );
});
