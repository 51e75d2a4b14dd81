// All settings of the service: what they are called and mean. `serve --help` prints this table, and the API reports the
// values by it. config.ts reads them.

import { defaultIntervalMs } from "./runtime/metrics/otlp-settings.ts";

export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

/** The flags of `serve`. What is absent comes from the environment. */
export interface ServeFlags {
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
  readonly logLevel?: string;
  readonly config?: string;
}

export const defaults = {
  host: "127.0.0.1",
  port: "3000",
  dataDir: "./data",
  logLevel: "info",
  replicaWeight: "1",
  leaseSeconds: "6",
} as const;

export interface Setting {
  readonly variable: string;
  /** Wins over the variable. Secrets have none, because others can see a process's arguments. */
  readonly flag?: keyof ServeFlags;
  /**
   * What may be shown of the value. `secret`: nothing. `address`: what is no credential in it. By default, and that
   * takes a setting which can never hold a secret: all of it.
   */
  readonly shown?: "secret" | "address";
  /** Left out: there is none, or it depends on the machine. */
  readonly default?: string;
}

/** Settings that are explained together. */
export interface SettingGroup {
  readonly settings: readonly Setting[];
  readonly meaning: string;
}

export const settingTable: readonly SettingGroup[] = [
  {
    settings: [
      { variable: "MILLRACE_HOST", flag: "host", default: defaults.host },
      { variable: "MILLRACE_PORT", flag: "port", default: defaults.port },
    ],
    meaning: "as --host and --port",
  },
  {
    settings: [{ variable: "MILLRACE_DATA_DIR", flag: "dataDir", default: defaults.dataDir }],
    meaning: "as --data-dir",
  },
  { settings: [{ variable: "MILLRACE_CONFIG", flag: "config" }], meaning: "as --config" },
  {
    settings: [{ variable: "DATABASE_URL", shown: "address" }],
    meaning: "keep the state in this Postgres; unset: in the data directory",
  },
  {
    settings: [{ variable: "MILLRACE_USERNAME" }, { variable: "MILLRACE_PASSWORD", shown: "secret" }],
    meaning: "ask clients for HTTP Basic authentication",
  },
  {
    settings: [{ variable: "MILLRACE_API_TOKEN", shown: "secret" }],
    meaning: "accept this Bearer token",
  },
  {
    settings: [
      { variable: "MILLRACE_READ_TOKEN", shown: "secret" },
      { variable: "MILLRACE_READ_USERNAME" },
      { variable: "MILLRACE_READ_PASSWORD", shown: "secret" },
    ],
    meaning: "accept these too, for reading alone",
  },
  {
    settings: [{ variable: "MILLRACE_ALLOW_ANONYMOUS" }],
    meaning: "1: ask nobody for credentials, on any address and under any name",
  },
  {
    settings: [{ variable: "MILLRACE_ENCRYPTION_KEY", shown: "secret" }],
    meaning: "32 bytes in base64 that secrets are stored under; unset: a key file in the data directory",
  },
  {
    settings: [{ variable: "MILLRACE_REPLICA_ID" }],
    meaning: "this process's name among replicas; unset: the host's name and a random part",
  },
  {
    settings: [{ variable: "MILLRACE_REPLICA_WEIGHT", default: defaults.replicaWeight }],
    meaning: `its share of the connectors among replicas of one DATABASE_URL; 0: only the API; default ${defaults.replicaWeight}`,
  },
  {
    settings: [{ variable: "MILLRACE_LEASE_SECONDS", default: defaults.leaseSeconds }],
    meaning: `after so long without a sign of life, other replicas take over; default ${defaults.leaseSeconds}`,
  },
  {
    settings: [{ variable: "MILLRACE_WEBHOOK_EGRESS" }],
    meaning: "public: webhooks may not go to private addresses",
  },
  {
    settings: [{ variable: "MILLRACE_WORKER_THREADS" }],
    meaning: "so many threads of a kind before connectors share them; unset: two for each core, at least 4",
  },
  {
    settings: [
      // Chat services put a secret into the path.
      { variable: "MILLRACE_ALERT_URL", shown: "secret" },
      { variable: "MILLRACE_ALERT_SECRET", shown: "secret" },
    ],
    meaning: "post alerts to this address, signed with whsec_… where there is a secret",
  },
  {
    settings: [
      { variable: "OTEL_EXPORTER_OTLP_ENDPOINT", shown: "address" },
      { variable: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", shown: "address" },
    ],
    meaning:
      "push metrics to this collector by OTLP/HTTP in JSON, at /v1/metrics below it; or to exactly this address",
  },
  {
    settings: [{ variable: "OTEL_EXPORTER_OTLP_HEADERS", shown: "secret" }],
    meaning: "headers for it: name=value,name=value",
  },
  {
    settings: [{ variable: "OTEL_METRICS_EXPORTER" }, { variable: "OTEL_SDK_DISABLED" }],
    meaning: "none, or true: push no metrics",
  },
  {
    settings: [{ variable: "OTEL_METRIC_EXPORT_INTERVAL", default: defaultIntervalMs }],
    meaning: `milliseconds between pushes; default ${defaultIntervalMs}`,
  },
  {
    settings: [
      { variable: "OTEL_SERVICE_NAME", default: "millrace" },
      { variable: "OTEL_RESOURCE_ATTRIBUTES" },
    ],
    meaning: "what the metrics are told to be of: a name (default millrace), and key=value,key=value",
  },
  {
    settings: [{ variable: "MILLRACE_LOG_LEVEL", flag: "logLevel", default: defaults.logLevel }],
    meaning: `one of ${logLevels.join(", ")}; default info`,
  },
];
