// Turns a checked request into what is stored and run: aliases, secrets, defaults. Pure; the caller reads the stored
// connector that secrets come from.

import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError, type Violation } from "../../errors/millrace-error.ts";
import { materialViolations } from "../config/kafka/kafka-material.ts";
import { kafkaRules } from "../config/kafka/kafka-rules.ts";
import type { SinkConfig, SinkRequest } from "../config/sink-config.ts";
import type { SourceConfig, SourceRequest } from "../config/source-config.ts";
import { tlsProblems } from "../config/tls-material.ts";
import type { ConnectorConfig, ConnectorRequest } from "../connector.ts";
import { type FillMissing, fillSecrets, missingSecrets, unusableKeys } from "../secrets.ts";
import { completeConnector, completeSink, completeSource } from "./complete-connector.ts";
import { givenForm } from "./given-form.ts";

export interface ResolveOptions {
  readonly id: string;
  /** Where secrets come from that are left out or `"***"`; null: nowhere. */
  readonly stored: ConnectorConfig | null;
  /**
   * The connector takes the place of `stored`. Then an optional secret that is left out is cleared: otherwise it would
   * stay in force although no description of the connector has it.
   */
  readonly replaces?: boolean;
}

/**
 * The given form of `request`, which has passed `checkConnectorRequest`, with its secrets. An explicit `null` clears an
 * optional one.
 *
 * Throws `missing_secret` with the paths of required secrets that neither it nor `stored` has, and `invalid_request` for
 * a private key or a certificate that cannot work.
 */
export function resolveGiven(request: ConnectorRequest, options: ResolveOptions): ConnectorRequest {
  const { id, stored, replaces = false } = options;
  const filled = fill(
    { ...request, sink: withoutAliases(request.sink) },
    stored,
    replaces ? "required" : "all",
  );
  return givenForm(filled, id);
}

/** The full form of what `resolveGiven` returns. */
export function resolveConnector(request: ConnectorRequest, options: ResolveOptions): ConnectorConfig {
  return completeConnector(resolveGiven(request, options), options.id);
}

/** As `resolveConnector`, for a source alone. */
export function resolveSource(source: SourceRequest, stored: ConnectorConfig | null): SourceConfig {
  return completeSource(fill({ source }, stored, "all").source);
}

/** As `resolveConnector`, for a sink alone. */
export function resolveSink(sink: SinkRequest, stored: ConnectorConfig | null): SinkConfig {
  return completeSink(fill({ sink: withoutAliases(sink) }, stored, "all").sink);
}

function fill<T extends Partial<Pick<ConnectorRequest, "source" | "sink">>>(
  request: T,
  stored: ConnectorConfig | null,
  fillMissing: FillMissing,
): T {
  const filled = fillSecrets(request, stored, fillMissing);
  requireSecrets(filled);
  return filled;
}

/**
 * Throws `missing_secret` unless every required secret is present, and `invalid_request` for a key or a certificate that
 * cannot work.
 */
export function requireSecrets(request: Partial<Pick<ConnectorRequest, "source" | "sink">>): void {
  const missing = missingSecrets(request);
  const unusable = [
    ...unusableKeys(request),
    ...tlsProblems(request.source?.postgres?.connection, "/source/postgres/connection"),
    ...tlsProblems(request.sink?.postgres?.connection, "/sink/postgres/connection"),
    ...(missing.length > 0 ? [] : kafkaProblems(request.sink?.kafka)),
  ];
  if (unusable.length > 0) throw invalidRequest([...missing, ...unusable]);
  if (missing.length === 0) return;
  const text = "A secret is required, and there is none stored to fill it from.";
  throw new MillraceError("missing_secret", text, { violations: missing });
}

/** The rules once more: a value that was filled in takes part in them now. */
function kafkaProblems(sink: SinkRequest["kafka"]): readonly Violation[] {
  if (!sink) return [];
  return [...kafkaRules.flatMap(({ check }) => check(sink)), ...materialViolations(sink)];
}

/** Renames `headers.static`, an alias of `headers.static_`. */
function withoutAliases(sink: SinkRequest): SinkRequest {
  const headers = sink.webhook?.headers;
  if (!sink.webhook || !headers?.static) return sink;
  const { static: aliased, ...others } = headers;
  return { webhook: { ...sink.webhook, headers: { ...others, static_: aliased } } };
}
