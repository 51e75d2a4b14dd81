// The contract of sinks, src/sink/sink.ts and copy-sink.ts, shown for Kafka: the suites of test/sink/contract*, over a real broker.

import { describeInstead } from "../support/contract/kinds.ts";
import { kafkaKind, plainKafkaKind } from "../support/kafka/contract-kafka.ts";

describeInstead([kafkaKind, plainKafkaKind]);

const suites = new Bun.Glob("contract*.{test,thorough}.ts").scan({
  cwd: `${import.meta.dir}/../sink`,
  absolute: true,
});
for (const suite of (await Array.fromAsync(suites)).sort()) await import(suite);
