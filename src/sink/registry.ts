// The kinds of sinks: one line each. The only place that knows them all.

import { historyAsked } from "../connector/config/catalog.ts";
import type { SinkConfig } from "../connector/config/sink-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { createMessageSink } from "./delivery/message-sink.ts";
import { dropSideTables } from "./postgres/bookkeeping/sink-objects.ts";
import { validatePostgresSink } from "./postgres/checks/sink-validation.ts";
import { createPostgresSink } from "./postgres/create-postgres-sink.ts";
import { sinkPace } from "./postgres/sink-pace.ts";
import type { Sink, SinkContext } from "./sink.ts";
import { validateWebhookSink } from "./webhook/sink-validation.ts";
import { webhookLineBytes } from "./webhook/stream-size.ts";

/** `line` leads to the delivery worker; a sink of messages needs it. */
export function createSink(connector: ConnectorConfig, context: SinkContext, line: MessagePort | null): Sink {
  const { postgres, webhook, kafka } = connector.sink;
  if (postgres) {
    const { catalog } = connector.source.postgres ?? {};
    const asked = catalog && historyAsked(catalog);
    return createPostgresSink(postgres, context, connector.identifier_naming, sinkPace, asked);
  }
  if (webhook && line) return createMessageSink(context, line, webhookLineBytes);
  if (kafka && line) return createMessageSink(context, line);
  throw unknownKind();
}

/** Drops what the service made at the sink for this connector, and that is not what was delivered. */
export async function dropSinkObjects(connector: ConnectorConfig, signal: AbortSignal): Promise<void> {
  const { postgres, kafka } = connector.sink;
  if (postgres) await dropSideTables(postgres, connector.id, signal);
  if (kafka) {
    const { dropCheckpoint } = await import("./kafka/checkpoint/drop-checkpoint.ts");
    await dropCheckpoint(kafka, connector.id, signal);
  }
}

/** `connectorId` null: the sink is of no connector yet. */
export async function validateSink(
  sink: SinkConfig,
  signal: AbortSignal,
  connectorId: string | null = null,
): Promise<ValidateEvent[]> {
  if (sink.postgres) return await validatePostgresSink(sink.postgres, signal);
  if (sink.webhook) return await validateWebhookSink(sink.webhook, signal);
  if (sink.kafka) {
    // Kafka's client is loaded where it is used: it takes some MB.
    const { validateKafkaSink } = await import("./kafka/checks/sink-validation.ts");
    return await validateKafkaSink(sink.kafka, signal, connectorId);
  }
  throw unknownKind();
}

function unknownKind(): MillraceError {
  return new MillraceError("unsupported_kind", "This kind of sink is not built.");
}
