// The kinds of sources: one line each. The only place that knows them all. What a kind needs is loaded where it is asked for, as with sinks.

import type { Catalog } from "../connector/config/catalog.ts";
import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { SourceConfig } from "../connector/config/source-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { slotName } from "../connector/connector-id.ts";
import { canResume } from "../connector/request/resume-refusal.ts";
import type { Finding } from "../connector/service/diagnosis.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { KnownSlot } from "./postgres/checks/source-findings.ts";
import type { DroppedBy, KeptLog, Source, SourceContext } from "./source.ts";

export type MakeSource = (context: SourceContext) => Source;

/** Loads what the connector's kind of source needs. Throws `unsupported_kind` for one that is not built. */
export async function sourceMaker(connector: ConnectorConfig): Promise<MakeSource> {
  const { postgres } = connector.source;
  if (!postgres) throw unknownKind();
  if (copiesInRounds(connector)) {
    const { PostgresCopySource } = await import("./postgres/postgres-copy-source.ts");
    return (context) => new PostgresCopySource(postgres, context);
  }
  const { PostgresSource } = await import("./postgres/postgres-source.ts");
  const slot = slotName(connector.id);
  const isResumable = canResume(connector);
  return (context) =>
    new PostgresSource(postgres, slot, connector.limits.cdc.max_buffer_rows, { ...context, isResumable });
}

/** Drops what the service made at the source for this connector: its slot, and the publications that are its own. */
export async function dropSourceObjects(
  connector: ConnectorConfig,
  signal: AbortSignal,
  by?: DroppedBy,
): Promise<void> {
  const { postgres } = connector.source;
  if (!postgres) throw unknownKind();
  const { dropPostgresObjects } = await import("./postgres/source-objects.ts");
  await dropPostgresObjects(postgres, slotName(connector.id), signal, by);
}

export async function readSourceCatalog(source: SourceConfig, signal: AbortSignal): Promise<Catalog> {
  if (!source.postgres) throw unknownKind();
  const { readCatalog } = await import("./postgres/catalog/catalog-reader.ts");
  return await readCatalog(source.postgres.connection, signal);
}

/** @param connectorId of the connector that is stored with this source, or is to be; null: it has no name yet */
export async function validateSource(
  source: SourceConfig,
  signal: AbortSignal,
  connectorId: string | null,
): Promise<ValidateEvent[]> {
  const slot = connectorId === null ? null : slotName(connectorId);
  if (!source.postgres) throw unknownKind();
  const { validatePostgresSource } = await import("./postgres/checks/source-validation.ts");
  return await validatePostgresSource(source.postgres, signal, slot);
}

/** What is wrong with the connector's slot and its source's clock; nothing, where it does not stream. */
export async function examineSource(
  connector: ConnectorConfig,
  known: Omit<KnownSlot, "connector">,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { postgres } = connector.source;
  if (!postgres) throw unknownKind();
  if (copiesInRounds(connector)) return [];
  const { examinePostgresSource } = await import("./postgres/checks/source-findings.ts");
  return await examinePostgresSource(postgres, { ...known, connector: connector.id }, signal);
}

/** What the source keeps of its log for the connector, whether it runs or not; null: it has no slot. */
export async function readSourceLog(
  connector: ConnectorConfig,
  signal: AbortSignal,
): Promise<KeptLog | null> {
  const { postgres } = connector.source;
  if (!postgres) throw unknownKind();
  const { readPostgresLog } = await import("./postgres/checks/source-findings.ts");
  const slot = { connector: connector.id, isResumable: canResume(connector) };
  return await readPostgresLog(postgres, slot, signal);
}

function unknownKind(): MillraceError {
  return new MillraceError("unsupported_kind", "This kind of source is not built.");
}
