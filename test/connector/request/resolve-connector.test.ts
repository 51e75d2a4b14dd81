import { describe, expect, test } from "bun:test";
import { Check } from "@sinclair/typebox/value";
import { ConnectorConfigSchema } from "../../../src/connector/connector.ts";
import {
  resolveConnector,
  resolveSink,
  resolveSource,
} from "../../../src/connector/request/resolve-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { messageFormat } from "../../../src/sink/webhook/webhook-settings.ts";
import { bringKey } from "../../support/servers/ssh-keys.ts";
import {
  clientCertificate,
  configSample,
  connectionSample,
  postgresSinkSample,
  requestSample,
  sourceSample,
  webhookSinkSample,
} from "../samples.ts";

function missing(run: () => unknown): string[] {
  try {
    run();
    return [];
  } catch (error) {
    if (!(error instanceof MillraceError) || error.code !== "missing_secret") throw error;
    return error.violations.map(({ path }) => path);
  }
}

describe("defaults", () => {
  test("of a connector from Postgres to Postgres", () => {
    const pg = {
      host: "db.internal",
      port: 5432,
      user: "replicator",
      ssl_mode: "Prefer",
      max_pool_size: 0,
      operation_lock_timeout_seconds: 0,
    };
    const config = configSample();
    expect(config).toEqual({
      id: "orders",
      name: null,
      disabled: false,
      source: {
        postgres: {
          connection: { ...pg, password: "source-password", database: "shop", ssl_mode: "Prefer" },
          replication_type: {
            logical_replication: {
              publication_name: null,
              retry_window_seconds: 0,
              skip_snapshots: false,
              toast_mode: "ReplicaIdentityFull",
            },
          },
          catalog: { name: "shop", default_action: "Include", schemas: [] },
          parallel_snapshots_enabled: true,
          partitions_as_root: false,
          keyless_table_strategy: { append_only: {} },
          system_columns: {},
        },
      },
      sink: {
        postgres: {
          connection: { ...pg, password: "sink-password", database: "warehouse", ssl_mode: "Prefer" },
          target_schema: null,
          migration_strategy: {
            allowed: ["Add", "Drop", "Datatype", "Nullability", "Order"],
            disable_all: false,
          },
          history_mode: { append: { suffix: "_history" } },
        },
      },
      buffer: null,
      limits: {
        cdc: { flush_interval_ms: 0, max_buffer_rows: 0 },
        snapshot: { max_buffer_rows: 0 },
        verify: { every_hours: 0, lanes: 0 },
        receipts_hours: 0,
        receipts_max_bytes: 268_435_456,
      },
      schedule: null,
      identifier_naming: { SourceNaming: {} },
    });
    expect(Check(ConnectorConfigSchema, config)).toBe(true);
  });

  test("of a webhook sink", () => {
    expect(configSample({ sink: webhookSinkSample() }).sink).toEqual({
      webhook: {
        url: "https://hooks.example.com",
        path_template: "webhooks/{schema}/{table}",
        format: { native: {} },
        auth: null,
        headers: {
          idempotency_key: true,
          idempotency_key_header: "Idempotency-Key",
          source_schema: true,
          source_schema_header: "X-Source-Schema",
          source_table: true,
          source_table_header: "X-Source-Table",
          static_: [],
        },
        batch: { max_batch_size: 0, max_payload_bytes: 1_048_576 },
        compression: "None",
        rate_limit: { max_requests_per_second: 0, max_bytes_per_second: 0 },
        retry: {
          max_retries: 1024,
          max_retry_duration_ms: 3_600_000,
          initial_backoff_ms: 1000,
          max_backoff_ms: 180_000,
        },
        request_timeout_ms: 30_000,
        max_in_flight: 32,
        on_exhausted: { stop: {} },
        signing: null,
      },
    });
  });

  test("inside partly given objects", () => {
    const { privateKey: private_key, publicKey } = bringKey("ed25519");
    const host_keys = [publicKey];
    const config = configSample({
      source: sourceSample({
        replication_type: { snapshot: {} },
        system_columns: { lsn: {}, op: {} },
        catalog: { schemas: [{ name: "public", tables: [{ name: "orders", columns: [{ name: "id" }] }] }] },
        connection: connectionSample({
          tunnel: {
            ssh: {
              bastion_host: "bastion",
              user: "u",
              auth: { bring_your_own_key: { private_key } },
              host_keys,
            },
          },
        }),
      }),
      limits: { cdc: { max_buffer_rows: 5 } },
      identifier_naming: { FivetranNaming: {} },
    });
    const source = config.source.postgres;
    expect(source?.replication_type).toEqual({ snapshot: {} });
    expect(source?.system_columns).toEqual({ lsn: {}, op: { encoding: "Char", snapshot_as_read: false } });
    expect(source?.catalog.schemas).toEqual([
      {
        name: "public",
        action: "Include",
        tables: [
          {
            name: "orders",
            action: "Include",
            history_enabled: false,
            columns: [{ name: "id", action: "Include" }],
          },
        ],
      },
    ]);
    expect(source?.connection.tunnel?.ssh).toMatchObject({
      bastion_port: 22,
      bastion_alternates: [],
      host_keys,
    });
    expect(config.limits).toEqual({
      cdc: { flush_interval_ms: 0, max_buffer_rows: 5 },
      snapshot: { max_buffer_rows: 0 },
      verify: { every_hours: 0, lanes: 0 },
      receipts_hours: 0,
      receipts_max_bytes: 268_435_456,
    });
    expect(config.identifier_naming).toEqual({
      FivetranNaming: { schema_prefix: null, column_conflict: "Fail", table_conflict: "Merge" },
    });
    expect(Check(ConnectorConfigSchema, config)).toBe(true);
  });

  test("the full form resolves to itself", () => {
    for (const sink of [postgresSinkSample(), webhookSinkSample({ format: { debezium: {} } })]) {
      const config = configSample({ sink });
      expect(resolveConnector(config, { id: "orders", stored: null })).toEqual(config);
    }
  });
});

test("an unusable tunnel key is refused, and not repeated", () => {
  const locked = bringKey("ed25519", "sesame").privateKey;
  const ssh = { bastion_host: "b", user: "u", auth: { bring_your_own_key: { private_key: locked } } };
  let refusal: unknown;
  try {
    resolveSource(sourceSample({ connection: connectionSample({ tunnel: { ssh } }) }), null);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: "invalid_request",
    violations: [{ path: "/source/postgres/connection/tunnel/ssh/auth/bring_your_own_key/private_key" }],
  });
  expect(JSON.stringify(refusal)).not.toContain(locked.split("\n")[2]);
});

describe("message formats", () => {
  test("supermetal means native, and is returned as sent", () => {
    const sink = resolveSink(webhookSinkSample({ format: { supermetal: {} } }), null);
    expect(sink.webhook?.format).toEqual({ supermetal: {} });
    expect(messageFormat(sink.webhook?.format ?? {})).toEqual({ kind: "native", embedSchema: false });
  });

  test("debezium gets every default", () => {
    const config = { value_serde: { json: { options: { embed_schema_in_message: true } } } };
    const sink = resolveSink(webhookSinkSample({ format: { debezium: { format_config: config } } }), null);
    const format = messageFormat(sink.webhook?.format ?? {});
    expect(format).toMatchObject({
      kind: "debezium",
      embedSchema: true,
      options: {
        include_before: true,
        skipped_operations: "t",
        tombstones_on_delete: true,
        data_types: {
          binary_handling_mode: "Bytes",
          decimal_handling_mode: "Precise",
          time_precision_mode: "Adaptive",
        },
      },
    });
  });
});

describe("secrets", () => {
  const stored = configSample({
    source: sourceSample({ connection: connectionSample(clientCertificate) }),
    sink: webhookSinkSample({
      auth: { basic: { username: "u", password: "basic-password" } },
      headers: {
        static: [
          { name: "X-A", value: "one" },
          { name: "x-a", value: "two" },
        ],
      },
      signing: { secret: `whsec_${"B".repeat(32)}` },
    }),
  });
  const { password: _, ...open } = connectionSample();

  test("that are omitted or redacted come from the stored connector", () => {
    const request = requestSample({
      source: sourceSample({ connection: { ...open, ssl_cert: "***" } }),
      sink: webhookSinkSample({
        auth: { basic: { username: "u" } },
        headers: { static_: [{ name: "X-A" }, { name: "X-B", value: "new" }, { name: "X-a", value: "***" }] },
        signing: {},
      }),
    });
    const config = resolveConnector(request, { id: "orders", stored });
    expect(config.source.postgres?.connection).toMatchObject({
      password: "source-password",
      ...clientCertificate,
    });
    expect(config.sink.webhook?.auth).toEqual({ basic: { username: "u", password: "basic-password" } });
    expect(config.sink.webhook?.signing).toEqual({ secret: `whsec_${"B".repeat(32)}` });
    expect(config.sink.webhook?.headers.static_).toEqual([
      { name: "X-A", value: "one" },
      { name: "X-B", value: "new" },
      { name: "X-a", value: "two" },
    ]);
  });

  test("an explicit null clears an optional one", () => {
    const cleared = { ssl_cert: null, ssl_key: null };
    const request = requestSample({ source: sourceSample({ connection: { ...open, ...cleared } }) });
    const connection = resolveSource(request.source, stored).postgres?.connection;
    for (const key of Object.keys(cleared)) expect(connection).not.toHaveProperty(key);
    const kept = resolveSource(sourceSample({ connection: open }), stored).postgres?.connection;
    expect(kept).toMatchObject(clientCertificate);
  });

  test("of a disabled feature are not filled", () => {
    const config = resolveConnector(requestSample({ sink: webhookSinkSample() }), { id: "orders", stored });
    expect(config.sink.webhook).toMatchObject({ auth: null, signing: null });
  });

  test("that are required and missing: every path is named", () => {
    const request = requestSample({
      source: sourceSample({ connection: open, catalog: { column_hashing: {} } }),
      sink: webhookSinkSample({
        auth: { bearer: { token: "***" } },
        headers: { static_: [{ name: "X-A" }] },
      }),
    });
    expect(missing(() => resolveConnector(request, { id: "orders", stored: null }))).toEqual([
      "/source/postgres/connection/password",
      "/source/postgres/catalog/column_hashing/salt",
      "/sink/webhook/auth/bearer/token",
      "/sink/webhook/headers/static_/0/value",
    ]);
  });

  test("are not taken from a sink of another kind", () => {
    const { password: __, ...sinkWithout } = connectionSample();
    const request = requestSample({ sink: { postgres: { connection: sinkWithout } } });
    expect(missing(() => resolveConnector(request, { id: "orders", stored }))).toEqual([
      "/sink/postgres/connection/password",
    ]);
  });
});
