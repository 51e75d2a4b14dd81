// The kinds of sinks: one line each. The only place that knows them all. What a kind needs is loaded where a connector has it: it takes
// some MB in each thread, and each collection of the thread's garbage goes over it.

import { historyAsked } from "../connector/config/catalog-selection.ts";
import type { PostgresSinkConfig, SinkConfig } from "../connector/config/sink-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { createMessageSink } from "./delivery/message-sink.ts";
import type { Sink, SinkContext } from "./sink.ts";
import { webhookLineBytes } from "./webhook/stream-size.ts";

/** `line` leads to the delivery worker; a sink of messages needs it. */
export type MakeSink = (context: SinkContext, line: MessagePort | null) => Sink;

/** Loads what the connector's kind of sink needs. Throws `unsupported_kind` for one that is not built. */
export async function sinkMaker(connector: ConnectorConfig): Promise<MakeSink> {
  const { postgres, webhook, kafka } = connector.sink;
  if (postgres) return await postgresSinkMaker(connector, postgres);
  if (webhook) return messageSinkMaker(webhookLineBytes);
  if (kafka) return messageSinkMaker();
  throw unknownKind();
}

async function postgresSinkMaker(
  { source, identifier_naming: naming }: ConnectorConfig,
  sink: PostgresSinkConfig,
): Promise<MakeSink> {
  const [{ createPostgresSink }, { sinkPace }] = await Promise.all([
    import("./postgres/create-postgres-sink.ts"),
    import("./postgres/sink-pace.ts"),
  ]);
  const catalog = source.postgres?.catalog;
  const asked = catalog && historyAsked(catalog);
  return (context) => createPostgresSink(sink, context, naming, sinkPace, asked);
}

function messageSinkMaker(maxLineBytes?: number): MakeSink {
  return (context, line) => {
    if (line === null) throw new MillraceError("internal", "a sink of messages has no line to its worker");
    return createMessageSink(context, line, maxLineBytes);
  };
}

/** Drops what the service made at the sink for this connector, and that is not what was delivered. */
export async function dropSinkObjects(connector: ConnectorConfig, signal: AbortSignal): Promise<void> {
  const { postgres, kafka } = connector.sink;
  if (postgres) {
    const { dropSideTables } = await import("./postgres/bookkeeping/sink-objects.ts");
    await dropSideTables(postgres, connector.id, signal);
  }
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
  if (sink.postgres) {
    const { validatePostgresSink } = await import("./postgres/checks/sink-validation.ts");
    return await validatePostgresSink(sink.postgres, signal);
  }
  if (sink.webhook) {
    const { validateWebhookSink } = await import("./webhook/sink-validation.ts");
    return await validateWebhookSink(sink.webhook, signal);
  }
  if (sink.kafka) {
    const { validateKafkaSink } = await import("./kafka/checks/sink-validation.ts");
    return await validateKafkaSink(sink.kafka, signal, connectorId);
  }
  throw unknownKind();
}

function unknownKind(): MillraceError {
  return new MillraceError("unsupported_kind", "This kind of sink is not built.");
}
