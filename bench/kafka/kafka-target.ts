// The Kafka sink that the service replicates to in a benchmark.

import type { JsonBody } from "../../src/demo/api-client.ts";
import type { KafkaCluster } from "../../test/support/kafka/kafka-cluster.ts";
import type { Target } from "../contenders/millrace-service.ts";
import { hasMarker } from "./kafka-topics.ts";

/** `prefix`: of its topics, which nobody else has. */
export function kafkaTarget(
  cluster: KafkaCluster,
  prefix: string,
  format: JsonBody,
  config: JsonBody = {},
): Target {
  return {
    name: "kafka",
    sink: {
      kafka: {
        connection: { brokers: cluster.bootstrap, config },
        format,
        topic_options: {},
        name: prefix,
        topic_name_template: `${prefix}.{schema}.{table}`,
      },
    },
    hasMarker: (marker) => hasMarker(cluster, prefix, marker),
    [Symbol.asyncDispose]: async () => {},
  };
}
