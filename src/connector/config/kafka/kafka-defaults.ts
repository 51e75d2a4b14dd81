// Fills the defaults of a Kafka sink: turns the request form into the full form. A missing secret stays missing.

import type { KafkaAuth, KafkaAuthRequest, KafkaSinkConfig, KafkaSinkRequest } from "../kafka-config.ts";
import { completeExhausted } from "../parking-config.ts";
import { completeKafkaFormat } from "./kafka-format.ts";
import { completeProducer } from "./producer-settings.ts";

export function completeKafka(request: KafkaSinkRequest): KafkaSinkConfig {
  const { connection, topic_options: topics } = request;
  const config = connection.config ?? {};
  return {
    connection: {
      brokers: connection.brokers,
      auth: completeAuth(connection.auth ?? {}),
      config: {
        ...completeProducer(config),
        global_properties: completeProperties(config.global_properties),
        producer_properties: completeProperties(config.producer_properties),
      },
    },
    format: completeKafkaFormat(request.format),
    ...(request.name !== undefined && { name: request.name }),
    topic_name_template: request.topic_name_template ?? "millrace.{database_or_schema}.{table}",
    topic_options: {
      partitions: topics.partitions ?? 1,
      replication_factor: topics.replication_factor ?? 1,
      config: topics.config ?? [],
      naming_mode: topics.naming_mode ?? "Default",
      operation_timeout_ms: topics.operation_timeout_ms ?? 30_000,
    },
    on_exhausted: completeExhausted(request.on_exhausted ?? { stop: {} }),
  };
}

/** An empty text is none: a variable of a file of connectors that is not set leaves it behind. */
function completeAuth(auth: KafkaAuthRequest): KafkaAuth {
  const { protocol = "Plaintext", ssl_key_password, ssl_ca, ssl_certificate, ssl_key, ...others } = auth;
  return {
    ...others,
    protocol,
    ...(ssl_key_password && { ssl_key_password }),
    ...(ssl_ca && { ssl_ca }),
    ...(ssl_certificate && { ssl_certificate }),
    ...(ssl_key && { ssl_key }),
  };
}

function completeProperties(
  properties: readonly { readonly key: string; readonly value?: string }[] = [],
): { key: string; value: string }[] {
  return properties.map(({ key, value = "" }) => ({ key, value }));
}
