// Inspects sources and sinks for the API without storing anything. The registries have the inspections themselves.

import type { InspectionService } from "../api/services.ts";
import { config, ValidationLog } from "../connection/validation-log.ts";
import type { BufferRequest } from "../connector/config/buffer-config.ts";
import type { Catalog } from "../connector/config/catalog.ts";
import type { SinkConfig, SinkRequest } from "../connector/config/sink-config.ts";
import type { SourceConfig, SourceRequest } from "../connector/config/source-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { resolveSink, resolveSource } from "../connector/request/resolve-connector.ts";
import { notSupported, unbuiltPaths } from "../connector/request/unbuilt-features.ts";
import type { Validate, ValidateEvent } from "../connector/validation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { State } from "../state/open-state.ts";

export interface InspectionContext {
  readonly state: State;
  readSourceCatalog(config: SourceConfig, signal: AbortSignal): Promise<Catalog>;
  readonly validateSource: Validate<SourceConfig>;
  readonly validateSink: Validate<SinkConfig>;
}

/** How long the reading of a catalog may take. */
const catalogMs = 60_000;
/** A validation answers within 10 s. */
const validationMs = 9_500;

export class LiveInspectionService implements InspectionService {
  constructor(
    private readonly context: InspectionContext,
    private readonly limits = { catalogMs, validationMs },
  ) {}

  async sourceCatalog(source: SourceRequest, fillFrom: string | null, signal: AbortSignal): Promise<Catalog> {
    const config = resolveSource(source, await this.#filler(fillFrom));
    return await this.#within(signal, this.limits.catalogMs, (limited) =>
      this.context.readSourceCatalog(config, limited),
    );
  }

  async validateSource(
    source: SourceRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]> {
    const config = resolveSource(source, await this.#filler(fillFrom));
    return await this.#validate(signal, (limited) => this.context.validateSource(config, limited, fillFrom));
  }

  async validateSink(
    sink: SinkRequest,
    fillFrom: string | null,
    signal: AbortSignal,
  ): Promise<readonly ValidateEvent[]> {
    const config = resolveSink(sink, await this.#filler(fillFrom));
    return await this.#validate(signal, (limited) => this.context.validateSink(config, limited, fillFrom));
  }

  async validateBuffer(buffer: BufferRequest, fillFrom: string | null): Promise<readonly ValidateEvent[]> {
    await this.#filler(fillFrom);
    const log = new ValidationLog();
    const isBuilt = unbuiltPaths({ buffer }).length === 0;
    log.record(
      config("buffer", "Whether the service can buffer so between source and sink."),
      isBuilt
        ? { type: "passed", message: "Nothing is buffered." }
        : {
            type: "failed",
            reason: `/buffer/object_store: ${notSupported}. Leave buffer out, or set it to null.`,
          },
    );
    return log.finish();
  }

  async #filler(id: string | null): Promise<ConnectorConfig | null> {
    return id === null ? null : (await this.context.state.connectors.get(id)).config;
  }

  /** A validation that takes too long ends as failed, with an event that says so. */
  async #validate(
    signal: AbortSignal,
    inspect: (limited: AbortSignal) => Promise<readonly ValidateEvent[]>,
  ): Promise<readonly ValidateEvent[]> {
    try {
      return await this.#within(signal, this.limits.validationMs, inspect);
    } catch (error) {
      if (!(error instanceof MillraceError) || error.code !== "source_timeout") throw error;
      const log = new ValidationLog();
      log.record({ Connection: {} }, { type: "failed", reason: error.message });
      return log.finish();
    }
  }

  /** Aborts `inspect` with `source_timeout` when it takes too long. */
  async #within<Result>(
    signal: AbortSignal,
    limitMs: number,
    inspect: (limited: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const limit = new AbortController();
    const text = `The server did not answer within ${limitMs / 1000} s.`;
    const timer = setTimeout(() => limit.abort(new MillraceError("source_timeout", text)), limitMs);
    try {
      return await inspect(AbortSignal.any([signal, limit.signal]));
    } catch (error) {
      if (!limit.signal.aborted || signal.aborted) throw error;
      throw new MillraceError("source_timeout", text, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}
