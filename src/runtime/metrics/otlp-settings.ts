// The settings of the push of metrics by OTLP, under the names that OpenTelemetry gives them. Pure.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/

import { invalidSetting } from "../../errors/invalid-input.ts";

export interface OtlpSettings {
  /** Where metrics are posted to, complete. */
  readonly url: string;
  /** May hold credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly intervalMs: number;
  /** What the metrics are of, `service.name` among it. */
  readonly resource: Readonly<Record<string, string>>;
}

export const defaultIntervalMs = "60000";
const maxIntervalMs = 24 * 3_600_000;

/**
 * Null: no endpoint is given. Throws `invalid_setting` with what to write instead, never with a value, also where there
 * is no endpoint: a wrong setting is a mistake in any case.
 *
 * @param variable null: unset, or empty. What holds blanks alone is a value, and none that is right.
 */
export function readOtlpSettings(variable: (name: string) => string | null): OtlpSettings | null {
  const url = metricsUrl(variable);
  const settings = {
    headers: readHeaders(variable("OTEL_EXPORTER_OTLP_HEADERS")),
    intervalMs: readInterval(variable("OTEL_METRIC_EXPORT_INTERVAL") ?? defaultIntervalMs),
    resource: readResource(variable("OTEL_RESOURCE_ATTRIBUTES"), variable("OTEL_SERVICE_NAME")),
  };
  const isPushed = pushes(variable("OTEL_METRICS_EXPORTER"), variable("OTEL_SDK_DISABLED"));
  return url === null || !isPushed ? null : { url, ...settings };
}

/** Other exporters than OTLP are known by their names, and are not here: /metrics is there for Prometheus in any case. */
const exporters: readonly string[] = ["otlp", "prometheus", "console", "none"];

function pushes(exporter: string | null, disabled: string | null): boolean {
  const named = (exporter ?? "otlp").split(",").map((name) => name.trim());
  if (!named.every((name) => exporters.includes(name))) {
    throw invalidSetting("OTEL_METRICS_EXPORTER must be otlp, or none: then no metrics are pushed.");
  }
  return named.includes("otlp") && disabled?.trim().toLowerCase() !== "true";
}

/** The address of the signal is taken as it is; below the one for all signals, metrics have a path of their own. */
function metricsUrl(variable: (name: string) => string | null): string | null {
  const own = variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
  if (own !== null) return readUrl("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", own, "/v1/metrics").href;
  const base = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (base === null) return null;
  const url = readUrl("OTEL_EXPORTER_OTLP_ENDPOINT", base, "");
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/metrics`;
  return url.href;
}

function readUrl(name: string, text: string, path: string): URL {
  if (/^https?:\/\/[^\s@#]+$/i.test(text) && URL.canParse(text)) return new URL(text);
  throw invalidSetting(
    `${name} must be an http or https address like http://collector:4318${path}, without user, password and ` +
      "fragment. Credentials go into OTEL_EXPORTER_OTLP_HEADERS.",
  );
}

function readInterval(text: string): number {
  const ms = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (ms < 1_000 || ms > maxIntervalMs) {
    throw invalidSetting(
      `OTEL_METRIC_EXPORT_INTERVAL must be milliseconds from 1000 to ${maxIntervalMs}, like 60000.`,
    );
  }
  return ms;
}

/** Tokens and visible characters (RFC 9110, section 5), and none that the request sets itself. */
function readHeaders(text: string | null): Readonly<Record<string, string>> {
  const form =
    "OTEL_EXPORTER_OTLP_HEADERS must be headers as name=value,name=value, with percent-encoded values";
  const headers = readPairs(text, form);
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || !/^[\x20-\x7e\t]*$/.test(value))
      throw invalidSetting(`${form}.`);
    if (/^(content-type|content-length|content-encoding|host|transfer-encoding)$/i.test(name)) {
      throw invalidSetting(
        `OTEL_EXPORTER_OTLP_HEADERS must not set ${name.toLowerCase()}: the request has its own.`,
      );
    }
  }
  return headers;
}

function readResource(
  attributes: string | null,
  serviceName: string | null,
): Readonly<Record<string, string>> {
  const form =
    "OTEL_RESOURCE_ATTRIBUTES must be attributes as key=value,key=value, with percent-encoded values, like " +
    "deployment.environment=production";
  if (serviceName?.trim() === "") {
    throw invalidSetting(
      "OTEL_SERVICE_NAME must not be blank: name the service, like millrace, or unset it.",
    );
  }
  const named = serviceName === null ? {} : { "service.name": serviceName };
  return { "service.name": "millrace", ...readPairs(attributes, form), ...named };
}

/** A list in the form of W3C baggage: values are percent-encoded, blanks around names and values do not count. */
function readPairs(text: string | null, form: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const pair of (text ?? "").split(",").map((each) => each.trim())) {
    // A comma at the end is no mistake worth a refusal.
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const name = at < 0 ? null : decoded(pair.slice(0, at).trim());
    const value = at < 0 ? null : decoded(pair.slice(at + 1).trim());
    if (!name || value === null) throw invalidSetting(`${form}.`);
    pairs[name] = value;
  }
  return pairs;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
