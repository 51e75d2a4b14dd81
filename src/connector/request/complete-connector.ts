// Fills the defaults of a connector: turns the request form into the full form. A missing secret becomes an empty text;
// resolve-connector.ts checks for missing ones.

import type { Catalog, CatalogRequest } from "../config/catalog.ts";
import type { PostgresConnection, PostgresConnectionRequest, TunnelConfig } from "../config/connection.ts";
import { completeKafka } from "../config/kafka/kafka-defaults.ts";
import { completeExhausted } from "../config/parking-config.ts";
import {
  defaultHistorySuffix,
  type PostgresSinkConfig,
  type PostgresSinkRequest,
  type SinkConfig,
  type SinkRequest,
} from "../config/sink-config.ts";
import type {
  PostgresSourceConfig,
  PostgresSourceRequest,
  SourceConfig,
  SourceRequest,
} from "../config/source-config.ts";
import type { WebhookSinkConfig, WebhookSinkRequest } from "../config/webhook-config.ts";
import { completeWebhookFormat } from "../config/webhook-format.ts";
import { defaultHeaderNames } from "../config/webhook-headers.ts";
import type { ConnectorConfig, ConnectorRequest, IdentifierNaming, Limits } from "../connector.ts";

/** The full form of a connector whose secrets are filled. */
export function completeConnector(request: ConnectorRequest, id: string): ConnectorConfig {
  return {
    id,
    name: request.name ?? null,
    disabled: request.disabled ?? false,
    source: completeSource(request.source),
    sink: completeSink(request.sink),
    buffer: request.buffer ?? null,
    limits: completeLimits(request.limits ?? {}),
    schedule: request.schedule ?? null,
    identifier_naming: completeNaming(request.identifier_naming ?? { SourceNaming: {} }),
  };
}

export function completeSource(source: SourceRequest): SourceConfig {
  return source.postgres ? { postgres: completePostgresSource(source.postgres) } : {};
}

export function completeSink(sink: SinkRequest): SinkConfig {
  if (sink.postgres) return { postgres: completePostgresSink(sink.postgres) };
  if (sink.webhook) return { webhook: completeWebhook(sink.webhook) };
  if (sink.kafka) return { kafka: completeKafka(sink.kafka) };
  return {};
}

function completeLimits(limits: NonNullable<ConnectorRequest["limits"]>): Limits {
  return {
    cdc: {
      flush_interval_ms: limits.cdc?.flush_interval_ms ?? 0,
      max_buffer_rows: limits.cdc?.max_buffer_rows ?? 0,
    },
    snapshot: { max_buffer_rows: limits.snapshot?.max_buffer_rows ?? 0 },
    verify: { every_hours: limits.verify?.every_hours ?? 0, lanes: limits.verify?.lanes ?? 0 },
    receipts_hours: limits.receipts_hours ?? 0,
    receipts_max_bytes: limits.receipts_max_bytes ?? 268_435_456,
  };
}

function completeNaming(naming: NonNullable<ConnectorRequest["identifier_naming"]>): IdentifierNaming {
  const fivetran = naming.FivetranNaming;
  if (!fivetran) return { SourceNaming: {} };
  return {
    FivetranNaming: {
      schema_prefix: fivetran.schema_prefix ?? null,
      column_conflict: fivetran.column_conflict ?? "Fail",
      table_conflict: fivetran.table_conflict ?? "Merge",
    },
  };
}

// --- Postgres --------------------------------------------------------------------------------

function completeConnection(request: PostgresConnectionRequest): PostgresConnection {
  return {
    host: request.host,
    port: request.port ?? 5432,
    user: request.user,
    password: request.password ?? "",
    database: request.database,
    ssl_mode: request.ssl_mode ?? "Prefer",
    ...(typeof request.ssl_cert === "string" && { ssl_cert: request.ssl_cert }),
    ...(typeof request.ssl_key === "string" && { ssl_key: request.ssl_key }),
    ...(typeof request.ssl_root_cert === "string" && { ssl_root_cert: request.ssl_root_cert }),
    max_pool_size: request.max_pool_size ?? 0,
    operation_lock_timeout_seconds: request.operation_lock_timeout_seconds ?? 0,
    ...(request.tunnel && { tunnel: completeTunnel(request.tunnel) }),
  };
}

function completeTunnel(tunnel: NonNullable<PostgresConnectionRequest["tunnel"]>): TunnelConfig {
  const ssh = tunnel.ssh;
  if (!ssh) return {};
  const { generated_key: generated, bring_your_own_key: own } = ssh.auth;
  return {
    ssh: {
      bastion_host: ssh.bastion_host,
      bastion_port: ssh.bastion_port ?? 22,
      user: ssh.user,
      bastion_alternates: ssh.bastion_alternates ?? [],
      ...(ssh.host_keys && { host_keys: ssh.host_keys }),
      auth: {
        ...(generated && {
          generated_key: { private_key: generated.private_key ?? "", public_key: generated.public_key },
        }),
        ...(own && { bring_your_own_key: { private_key: own.private_key ?? "" } }),
      },
    },
  };
}

function completePostgresSource(source: PostgresSourceRequest): PostgresSourceConfig {
  const logical = source.replication_type.logical_replication;
  const { op, ...columns } = source.system_columns ?? {};
  return {
    connection: completeConnection(source.connection),
    replication_type: logical
      ? {
          logical_replication: {
            publication_name: logical.publication_name ?? null,
            retry_window_seconds: logical.retry_window_seconds ?? 0,
            skip_snapshots: logical.skip_snapshots ?? false,
            toast_mode: logical.toast_mode ?? "ReplicaIdentityFull",
          },
        }
      : { snapshot: {} },
    catalog: completeCatalog(source.catalog ?? {}, source.connection.database),
    parallel_snapshots_enabled: source.parallel_snapshots_enabled ?? true,
    partitions_as_root: source.partitions_as_root ?? false,
    keyless_table_strategy: source.keyless_table_strategy ?? { append_only: {} },
    system_columns: {
      ...columns,
      ...(op && { op: { encoding: op.encoding ?? "Char", snapshot_as_read: op.snapshot_as_read ?? false } }),
    },
  };
}

/** Listed schemas, tables and columns are included by default. */
function completeCatalog(catalog: CatalogRequest, database: string): Catalog {
  const { column_hashing: hashing } = catalog;
  return {
    name: catalog.name ?? database,
    default_action: catalog.default_action ?? "Include",
    schemas: (catalog.schemas ?? []).map((schema) => ({
      name: schema.name,
      action: schema.action ?? "Include",
      tables: (schema.tables ?? []).map((table) => ({
        ...table,
        action: table.action ?? "Include",
        history_enabled: table.history_enabled ?? false,
        columns: (table.columns ?? []).map((column) => ({ ...column, action: column.action ?? "Include" })),
      })),
    })),
    ...(hashing && {
      column_hashing: { algorithm: hashing.algorithm ?? "Sha256", salt: hashing.salt ?? "" },
    }),
  };
}

function completePostgresSink(sink: PostgresSinkRequest): PostgresSinkConfig {
  return {
    connection: completeConnection(sink.connection),
    target_schema: sink.target_schema ?? null,
    migration_strategy: {
      allowed: sink.migration_strategy?.allowed ?? ["Add", "Drop", "Datatype", "Nullability", "Order"],
      disable_all: sink.migration_strategy?.disable_all ?? false,
    },
    history_mode: { append: { suffix: sink.history_mode?.append.suffix ?? defaultHistorySuffix } },
  };
}

// --- webhook ---------------------------------------------------------------------------------

function completeWebhook(sink: WebhookSinkRequest): WebhookSinkConfig {
  return {
    url: sink.url,
    path_template: sink.path_template ?? "webhooks/{schema}/{table}",
    format: completeWebhookFormat(sink.format ?? { native: {} }),
    auth: completeAuth(sink.auth ?? null),
    headers: completeHeaders(sink.headers ?? {}),
    batch: {
      max_batch_size: sink.batch?.max_batch_size ?? 0,
      max_payload_bytes: sink.batch?.max_payload_bytes ?? 1_048_576,
    },
    compression: sink.compression ?? "None",
    rate_limit: {
      max_requests_per_second: sink.rate_limit?.max_requests_per_second ?? 0,
      max_bytes_per_second: sink.rate_limit?.max_bytes_per_second ?? 0,
    },
    retry: {
      max_retries: sink.retry?.max_retries ?? 1024,
      max_retry_duration_ms: sink.retry?.max_retry_duration_ms ?? 3_600_000,
      initial_backoff_ms: sink.retry?.initial_backoff_ms ?? 1000,
      max_backoff_ms: sink.retry?.max_backoff_ms ?? 180_000,
    },
    request_timeout_ms: sink.request_timeout_ms ?? 30_000,
    max_in_flight: sink.max_in_flight ?? 32,
    on_exhausted: completeExhausted(sink.on_exhausted ?? { stop: {} }),
    signing: sink.signing ? { secret: sink.signing.secret ?? "" } : null,
  };
}

function completeAuth(auth: NonNullable<WebhookSinkRequest["auth"]> | null): WebhookSinkConfig["auth"] {
  if (!auth) return null;
  const { bearer, basic, header } = auth;
  return {
    ...(bearer && { bearer: { token: bearer.token ?? "" } }),
    ...(basic && { basic: { username: basic.username, password: basic.password ?? "" } }),
    ...(header && { header: { name: header.name, value: header.value ?? "" } }),
  };
}

function completeHeaders(headers: NonNullable<WebhookSinkRequest["headers"]>): WebhookSinkConfig["headers"] {
  return {
    idempotency_key: headers.idempotency_key ?? true,
    idempotency_key_header: headers.idempotency_key_header ?? defaultHeaderNames.idempotency_key,
    source_schema: headers.source_schema ?? true,
    source_schema_header: headers.source_schema_header ?? defaultHeaderNames.source_schema,
    source_table: headers.source_table ?? true,
    source_table_header: headers.source_table_header ?? defaultHeaderNames.source_table,
    static_: (headers.static_ ?? headers.static ?? []).map(({ name, value }) => ({
      name,
      value: value ?? "",
    })),
  };
}
