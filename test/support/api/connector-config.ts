// Full connector configurations for tests, with the defaults of the contract.

import type { PostgresConnection } from "../../../src/connector/config/connection.ts";
import type { PostgresSinkConfig } from "../../../src/connector/config/sink-config.ts";
import type { PostgresSourceConfig } from "../../../src/connector/config/source-config.ts";
import type { ConnectionSettings } from "../../../src/demo/postgres-server.ts";

export function fullConnection(
  settings: ConnectionSettings,
  change: Partial<PostgresConnection> = {},
): PostgresConnection {
  return { ...settings, ssl_mode: "Prefer", max_pool_size: 0, operation_lock_timeout_seconds: 0, ...change };
}

export function postgresSource(
  settings: ConnectionSettings,
  change: Partial<PostgresSourceConfig> = {},
): PostgresSourceConfig {
  return {
    connection: fullConnection(settings),
    replication_type: { logical_replication: logicalReplication() },
    catalog: { name: settings.database, default_action: "Include", schemas: [] },
    parallel_snapshots_enabled: true,
    partitions_as_root: false,
    keyless_table_strategy: { append_only: {} },
    system_columns: {},
    ...change,
  };
}

export function logicalReplication(publicationName: string | null = null) {
  return {
    publication_name: publicationName,
    retry_window_seconds: 0,
    skip_snapshots: false,
    toast_mode: "ReplicaIdentityFull" as const,
  };
}

export function postgresSink(
  settings: ConnectionSettings,
  change: Partial<PostgresSinkConfig> = {},
): PostgresSinkConfig {
  return {
    connection: fullConnection(settings),
    target_schema: null,
    migration_strategy: { allowed: ["Add", "Drop", "Datatype", "Nullability", "Order"], disable_all: false },
    history_mode: { append: { suffix: "_history" } },
    ...change,
  };
}
