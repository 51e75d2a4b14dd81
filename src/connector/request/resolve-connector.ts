// Turns a checked request into the full form that is stored and run: aliases, secrets, defaults. Pure; the caller reads
// the stored connector that secrets come from.

import { MillraceError } from "../../errors/millrace-error.ts";
import type { SinkConfig, SinkRequest } from "../config/sink-config.ts";
import type { SourceConfig, SourceRequest } from "../config/source-config.ts";
import type { ConnectorConfig, ConnectorRequest } from "../connector.ts";
import { fillSecrets, missingSecrets, unusableKeys } from "../secrets.ts";
import { invalidRequest } from "./check-request.ts";
import { completeConnector, completeSink, completeSource } from "./complete-connector.ts";

/**
 * The full form of `request`, which has passed `checkConnectorRequest`. Secrets that are left out or `"***"` come from
 * `stored`; an explicit `null` clears an optional one.
 *
 * Throws `missing_secret` with the paths of required secrets that neither has, and `invalid_request` for a private key
 * that cannot work.
 */
export function resolveConnector(
  request: ConnectorRequest,
  options: { readonly id: string; readonly stored: ConnectorConfig | null },
): ConnectorConfig {
  const filled = fill({ ...request, sink: withoutAliases(request.sink) }, options.stored);
  return completeConnector(filled, options.id);
}

/** As `resolveConnector`, for a source alone. */
export function resolveSource(source: SourceRequest, stored: ConnectorConfig | null): SourceConfig {
  return completeSource(fill({ source }, stored).source);
}

/** As `resolveConnector`, for a sink alone. */
export function resolveSink(sink: SinkRequest, stored: ConnectorConfig | null): SinkConfig {
  return completeSink(fill({ sink: withoutAliases(sink) }, stored).sink);
}

function fill<T extends object>(request: T, stored: ConnectorConfig | null): T {
  const filled = fillSecrets(request, stored, { fillMissing: "everywhere" });
  requireSecrets(filled);
  return filled;
}

/**
 * Throws `missing_secret` unless every required secret is present, and `invalid_request` for a key that cannot work.
 */
export function requireSecrets(request: object): void {
  const violations = missingSecrets(request);
  if (violations.length > 0) {
    const text = "A secret is required, and there is none stored to fill it from.";
    throw new MillraceError("missing_secret", text, { violations });
  }
  const unusable = unusableKeys(request);
  if (unusable.length > 0) throw invalidRequest(unusable);
}

/** Renames `headers.static`, an alias of `headers.static_`. */
function withoutAliases(sink: SinkRequest): SinkRequest {
  const headers = sink.webhook?.headers;
  if (!sink.webhook || !headers?.static) return sink;
  const { static: aliased, ...others } = headers;
  return { webhook: { ...sink.webhook, headers: { ...others, static_: aliased } } };
}
