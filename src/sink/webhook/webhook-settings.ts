// What a webhook connector asks of the delivering of its messages.

import type { MessageFormat } from "../../connector/config/message-format.ts";
import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import type { WebhookFormat } from "../../connector/config/webhook-format.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { RequestSettings } from "../delivery/delivery-settings.ts";
import { parkingSettings } from "../delivery/parking/parking-settings.ts";
import { type MessageEncoding, messageEncoding } from "../format/message-encoding.ts";

const defaultFlushIntervalMs = 100;

/** Throws `internal` for a connector of another kind: none gets here. */
export function webhookConfig({ sink }: Pick<ConnectorConfig, "sink">): WebhookSinkConfig {
  if (!sink.webhook) throw new MillraceError("internal", "the connector's sink is not a webhook");
  return sink.webhook;
}

/** Throws as `webhookConfig` does. */
export function webhookSettings(connector: ConnectorConfig): RequestSettings {
  const config = webhookConfig(connector);
  const { batch, retry } = config;
  const { cdc, snapshot } = connector.limits;
  const maxBufferedRows = cdc.max_buffer_rows || Number.POSITIVE_INFINITY;
  return {
    encoding: encodingOf(connector, messageFormat(config.format)),
    batch: {
      maxRows: batch.max_batch_size,
      maxBytes: batch.max_payload_bytes,
      isBare: batch.max_batch_size === 1,
    },
    retry: {
      maxRetries: retry.max_retries,
      maxRetryDurationMs: retry.max_retry_duration_ms,
      initialBackoffMs: retry.initial_backoff_ms,
      maxBackoffMs: retry.max_backoff_ms,
    },
    retriesExhausted: "webhook_retries_exhausted",
    maxInFlight: config.max_in_flight,
    parking: parkingSettings(config.on_exhausted, maxBufferedRows),
    flushIntervalMs: cdc.flush_interval_ms || defaultFlushIntervalMs,
    maxBufferedRows,
    maxBufferedCopyRows: snapshot.max_buffer_rows || Number.POSITIVE_INFINITY,
  };
}

/** The format, under whatever name it was sent. */
export function messageFormat({ native, supermetal, debezium }: WebhookFormat): MessageFormat {
  const serde = (debezium ?? native ?? supermetal)?.format_config?.value_serde.json;
  const embedSchema = serde?.options.embed_schema_in_message ?? false;
  if (!debezium) return { kind: "native", embedSchema };
  const { format_config: _, ...options } = debezium;
  return { kind: "debezium", embedSchema, options };
}

function encodingOf({ id, source: { postgres } }: ConnectorConfig, format: MessageFormat): MessageEncoding {
  return messageEncoding(format, {
    id,
    database: postgres?.connection.database ?? "",
    hasPlaceholders: postgres?.replication_type.logical_replication?.toast_mode === "Placeholder",
  });
}
