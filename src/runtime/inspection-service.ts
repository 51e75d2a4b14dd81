// Looks at sources and sinks for the API, without storing anything. The looking itself is the registries'.

import type { InspectionService } from "../api/services.ts";
import type { Catalog } from "../connector/catalog.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { resolveSink, resolveSource } from "../connector/resolve-connector.ts";
import type { SinkConfig, SinkRequest } from "../connector/sink-config.ts";
import type { SourceConfig, SourceRequest } from "../connector/source-config.ts";
import type { ValidateEvent } from "../connector/validation.ts";
import type { State } from "../state/open-state.ts";

export interface InspectionContext {
  readonly state: State;
  readSourceCatalog(config: SourceConfig, signal: AbortSignal): Promise<Catalog>;
  validateSource(config: SourceConfig, signal: AbortSignal): Promise<readonly ValidateEvent[]>;
  validateSink(config: SinkConfig, signal: AbortSignal): Promise<readonly ValidateEvent[]>;
}

/** The most that a look may take. */
const inspectionMs = 60_000;

export class LiveInspectionService implements InspectionService {
  constructor(private readonly context: InspectionContext) {}

  async sourceCatalog(source: SourceRequest, fillFrom: string | null, signal: AbortSignal): Promise<Catalog> {
    const config = resolveSource(source, await this.#filler(fillFrom));
    return this.context.readSourceCatalog(config, bounded(signal));
  }

  async validateSource(
    source: SourceRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]> {
    const config = resolveSource(source, await this.#filler(fillFrom));
    return this.context.validateSource(config, bounded(signal));
  }

  async validateSink(
    sink: SinkRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]> {
    const config = resolveSink(sink, await this.#filler(fillFrom));
    return this.context.validateSink(config, bounded(signal));
  }

  async #filler(id: string | null): Promise<ConnectorConfig | null> {
    return id === null ? null : (await this.context.state.connectors.get(id)).config;
  }
}

function bounded(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(inspectionMs)]);
}
