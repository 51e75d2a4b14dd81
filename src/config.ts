// The settings of the service: flags, then environment, then defaults. Pure; the callers pass flags and environment in.

import { resolve } from "node:path";
import { type AlertSettings, readAlertSettings } from "./alerts/alert-settings.ts";
import type { Authentication } from "./api/guards/authentication.ts";
import { readAuthentication } from "./api/guards/authentication-settings.ts";
import { egressPolicy } from "./connection/egress.ts";
import type { SettingReport } from "./connector/service/service-report.ts";
import { invalidSetting } from "./errors/invalid-input.ts";
import type { MillraceError } from "./errors/millrace-error.ts";
import { isLoopbackHost } from "./loopback.ts";
import { type OtlpSettings, readOtlpSettings } from "./runtime/metrics/otlp-settings.ts";
import { defaults, type LogLevel, logLevels, type ServeFlags } from "./setting-table.ts";
import { reportSettings } from "./settings-report.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Settings {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly dataDirectory: string;
  readonly databaseUrl: string | null;
  readonly encryptionKey: string | null;
  readonly authentication: Authentication;
  /** MILLRACE_ALLOW_ANONYMOUS: whoever reaches the service may use it, under any host name. */
  readonly allowAnonymous: boolean;
  readonly logLevel: LogLevel;
  /** The number of threads of each kind, before connectors share them; null: by the machine's cores. */
  readonly workerThreads: number | null;
  /** A file of connectors to create or replace at the start; null: none. */
  readonly configFile: string | null;
  /** Null: no alerts are sent. */
  readonly alerts: AlertSettings | null;
  /** Where metrics are pushed to by OTLP; null: nowhere. */
  readonly otlp: OtlpSettings | null;
  /** Names this process among the replicas of the service; null: it makes up a name. */
  readonly replicaId: string | null;
  /** How large a share of the connectors this process takes among replicas; 0: none, it only answers the API. */
  readonly replicaWeight: number;
  /** How long a connector's lease lasts that is not renewed. */
  readonly leaseSeconds: number;
  /** All settings as they may be shown: without secrets. */
  readonly report: readonly SettingReport[];
}

/** Throws `invalid_setting` with what to set, never with a value that may be secret. */
export function readSettings(flags: ServeFlags, environment: Environment): Settings {
  const variable = (name: string) => nonEmpty(environment[name]);
  const settings: Settings = {
    ...readStateSettings(flags, environment),
    host: nonEmpty(flags.host) ?? variable("MILLRACE_HOST") ?? defaults.host,
    port: parsePort(nonEmpty(flags.port) ?? variable("MILLRACE_PORT") ?? defaults.port),
    authentication: readAuthentication(variable),
    allowAnonymous: isTrue(variable("MILLRACE_ALLOW_ANONYMOUS")),
    configFile: nonEmpty(flags.config) ?? variable("MILLRACE_CONFIG"),
    workerThreads: parseThreads(variable("MILLRACE_WORKER_THREADS")),
    alerts: readAlertSettings(variable),
    otlp: readOtlpSettings((name) => environment[name] || null),
    replicaId: parseReplicaId(variable("MILLRACE_REPLICA_ID")),
    replicaWeight: parseNumber("MILLRACE_REPLICA_WEIGHT", variable, [0, 100], defaults.replicaWeight),
    leaseSeconds: parseNumber("MILLRACE_LEASE_SECONDS", variable, [2, 300], defaults.leaseSeconds),
    logLevel: parseLogLevel(nonEmpty(flags.logLevel) ?? variable("MILLRACE_LOG_LEVEL") ?? defaults.logLevel),
    report: reportSettings(flags, environment),
  };
  egressPolicy(environment); // The workers read it for themselves. A wrong word ends the start.
  if (settings.replicaWeight === 0 && settings.databaseUrl === null) throw nobodyRuns;
  if (checksHost(settings) && !isLoopbackHost(settings.host)) throw openWithoutAuthentication(settings.host);
  return settings;
}

/** The settings of the state: where it is, and its key. Throws as `readSettings` does. */
export function readStateSettings(
  flags: Pick<ServeFlags, "dataDir">,
  environment: Environment,
): Pick<Settings, "dataDirectory" | "databaseUrl" | "encryptionKey"> {
  const variable = (name: string) => nonEmpty(environment[name]);
  return {
    dataDirectory: resolve(nonEmpty(flags.dataDir) ?? variable("MILLRACE_DATA_DIR") ?? defaults.dataDir),
    databaseUrl: parseDatabaseUrl(variable("DATABASE_URL")),
    encryptionKey: variable("MILLRACE_ENCRYPTION_KEY"),
  };
}

/** Whether only this machine may use the service, because it does not authenticate callers. */
export function checksHost({ authentication, allowAnonymous }: Settings): boolean {
  return authentication.basic === null && authentication.bearer === null && !allowAnonymous;
}

function openWithoutAuthentication(host: string): MillraceError {
  return invalidSetting(
    `Refusing to listen on ${host} without authentication: anyone who reaches it could read and redirect your data. ` +
      "Set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and MILLRACE_PASSWORD, or listen on 127.0.0.1. " +
      "MILLRACE_ALLOW_ANONYMOUS=1 overrides this.",
  );
}

const nobodyRuns = invalidSetting(
  "MILLRACE_REPLICA_WEIGHT=0 needs DATABASE_URL: without it there is no other replica that could run the connectors.",
);

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  const linked = text.startsWith("tcp://")
    ? " Kubernetes sets MILLRACE_PORT in the pods beside a Service named millrace, unless their spec has enableServiceLinks: false."
    : "";
  throw invalidSetting(`--port (MILLRACE_PORT) must be a number from 0 to 65535.${linked}`);
}

function parseThreads(text: string | null): number | null {
  if (text === null) return null;
  return parseNumber("MILLRACE_WORKER_THREADS", () => text, [1, 9_999], "");
}

/** A whole number within bounds. */
function parseNumber(
  name: string,
  variable: (name: string) => string | null,
  [least, most]: readonly [number, number],
  otherwise: string,
): number {
  const text = variable(name) ?? otherwise;
  const value = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most))
    throw invalidSetting(`${name} must be a number from ${least} to ${most}.`);
  return value;
}

function parseReplicaId(text: string | null): string | null {
  if (text !== null && !/^[A-Za-z0-9._-]{1,64}$/.test(text))
    throw invalidSetting("MILLRACE_REPLICA_ID must be 1 to 64 of A-Z, a-z, 0-9, _, . and -.");
  return text;
}

function parseDatabaseUrl(text: string | null): string | null {
  if (text === null) return null;
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) {
    throw invalidSetting("DATABASE_URL must look like postgres://user:password@host:5432/database.");
  }
  return text;
}

function parseLogLevel(text: string): LogLevel {
  const level = logLevels.find((candidate) => candidate === text);
  if (!level)
    throw invalidSetting(`--log-level (MILLRACE_LOG_LEVEL) must be one of ${logLevels.join(", ")}.`);
  return level;
}

/** For the command rotate-key. */
export function readNewEncryptionKey(environment: Environment): string | null {
  return nonEmpty(environment.MILLRACE_NEW_ENCRYPTION_KEY);
}

/** An empty variable counts as absent: compose files and shells leave them behind. */
function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text.trim() === "" ? null : text;
}

function isTrue(text: string | null): boolean {
  return text !== null && /^(1|true|yes|on)$/i.test(text);
}
