// The kinds of sources: one line each. The only place that knows them all.

import type { Catalog } from "../connector/config/catalog.ts";
import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { SourceConfig } from "../connector/config/source-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { slotName } from "../connector/connector-id.ts";
import { canResume } from "../connector/request/resume-refusal.ts";
import type { Finding } from "../connector/service/diagnosis.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import { readCatalog } from "./postgres/catalog/catalog-reader.ts";
import { examinePostgresSource, type KnownSlot, readPostgresLog } from "./postgres/checks/source-findings.ts";
import { validatePostgresSource } from "./postgres/checks/source-validation.ts";
import { PostgresCopySource } from "./postgres/postgres-copy-source.ts";
import { PostgresSource } from "./postgres/postgres-source.ts";
import { dropPostgresObjects } from "./postgres/source-objects.ts";
import type { DroppedBy, KeptLog, Source, SourceContext } from "./source.ts";

export function createSource(connector: ConnectorConfig, context: SourceContext): Source {
  const { postgres } = connector.source;
  if (postgres && copiesInRounds(connector)) return new PostgresCopySource(postgres, context);
  if (postgres) {
    return new PostgresSource(postgres, slotName(connector.id), connector.limits.cdc.max_buffer_rows, {
      ...context,
      isResumable: canResume(connector),
    });
  }
  throw unknownKind();
}

/** Drops what the service made at the source for this connector: its slot, and the publications that are its own. */
export async function dropSourceObjects(
  connector: ConnectorConfig,
  signal: AbortSignal,
  by?: DroppedBy,
): Promise<void> {
  const { postgres } = connector.source;
  if (postgres) return await dropPostgresObjects(postgres, slotName(connector.id), signal, by);
  throw unknownKind();
}

export async function readSourceCatalog(source: SourceConfig, signal: AbortSignal): Promise<Catalog> {
  if (source.postgres) return await readCatalog(source.postgres.connection, signal);
  throw unknownKind();
}

/** @param connectorId of the connector that is stored with this source, or is to be; null: it has no name yet */
export async function validateSource(
  source: SourceConfig,
  signal: AbortSignal,
  connectorId: string | null,
): Promise<ValidateEvent[]> {
  const slot = connectorId === null ? null : slotName(connectorId);
  if (source.postgres) return await validatePostgresSource(source.postgres, signal, slot);
  throw unknownKind();
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
  return await examinePostgresSource(postgres, { ...known, connector: connector.id }, signal);
}

/** What the source keeps of its log for the connector, whether it runs or not; null: it has no slot. */
export async function readSourceLog(
  connector: ConnectorConfig,
  signal: AbortSignal,
): Promise<KeptLog | null> {
  const { postgres } = connector.source;
  if (!postgres) throw unknownKind();
  const slot = { connector: connector.id, isResumable: canResume(connector) };
  return await readPostgresLog(postgres, slot, signal);
}

function unknownKind(): MillraceError {
  return new MillraceError("unsupported_kind", "This kind of source is not built.");
}
