// Examples for the OpenAPI document. Those of request bodies work as they are with local servers.

export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

const source = {
  postgres: {
    connection: { host: "localhost", port: 5432, user: "postgres", password: "example", database: "shop" },
    replication_type: { logical_replication: {} },
  },
};

const postgresSink = {
  postgres: {
    connection: {
      host: "localhost",
      port: 5432,
      user: "postgres",
      password: "example",
      database: "warehouse",
    },
  },
};

const webhookSink = { webhook: { url: "http://localhost:8080" } };

const kafkaSink = {
  kafka: { connection: { brokers: ["localhost:9092"] }, format: { debezium: {} }, topic_options: {} },
};

const postgresToPostgres: Example = {
  summary: "Postgres to Postgres",
  value: { id: "orders", source, sink: postgresSink },
};

const postgresToWebhook: Example = {
  summary: "Postgres to a webhook",
  value: { id: "events", source, sink: webhookSink },
};

const postgresToKafka: Example = {
  summary: "Postgres to Kafka, exactly once",
  value: { id: "stream", source, sink: kafkaSink },
};

const kafkaWithLogIn: Example = {
  summary: "Kafka with TLS and a log-in, Avro, and topics of several partitions",
  value: {
    id: "avro",
    source,
    sink: {
      kafka: {
        connection: {
          brokers: ["localhost:9093"],
          auth: { protocol: "SaslSsl", mechanism: "ScramSha512", username: "millrace", password: "example" },
          config: { producer_preset: "Throughput", compression_type: "Zstd" },
        },
        format: {
          debezium: {
            format_config: {
              value_serde: { avro: { schema_registry: { url: "http://localhost:8081" } } },
            },
            headers: { op: true, tbl: true },
          },
        },
        name: "shop",
        topic_name_template: "shop.{database_or_schema}.{table}",
        topic_options: {
          partitions: 6,
          replication_factor: 3,
          config: [{ key: "cleanup.policy", value: "compact" }],
        },
      },
    },
  },
};

const chosenTables: Example = {
  summary: "Chosen tables only",
  value: {
    id: "chosen",
    source: {
      postgres: {
        ...source.postgres,
        catalog: {
          default_action: "Exclude",
          schemas: [{ name: "public", tables: [{ name: "orders" }, { name: "customers" }] }],
        },
      },
    },
    sink: { postgres: { ...postgresSink.postgres, target_schema: "shop" } },
  },
};

const batchedWebhook: Example = {
  summary: "Webhook with small batches, compressed",
  value: {
    id: "batched",
    source,
    sink: {
      webhook: {
        url: "http://localhost:8080",
        path_template: "webhooks/{schema}/{table}",
        batch: { max_batch_size: 500, max_payload_bytes: 262_144 },
        compression: "Gzip",
        retry: { max_retries: 0, max_retry_duration_ms: 0 },
      },
    },
  },
};

const connectors = {
  postgresToPostgres,
  postgresToWebhook,
  postgresToKafka,
  chosenTables,
  batchedWebhook,
  kafkaWithLogIn,
};

/** By operation id. Swagger UI fills in the first one. */
export const requestExamples: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  createConnector: connectors,
  createOrReplaceConnector: connectors,
  debugConnector: connectors,
  patchConnector: {
    rename: { summary: "Give it a name", value: { name: "Orders of the shop" } },
    disable: { summary: "Disable it", value: { disabled: true } },
  },
  commandConnector: {
    restart: { summary: "Restart", value: { command: "Restart" } },
    stop: { summary: "Stop", value: { command: "Stop" } },
  },
  getSourceCatalog: { postgres: { summary: "Postgres", value: { source } } },
  validateSource: { postgres: { summary: "Postgres", value: { source } } },
  validateSink: {
    postgres: { summary: "Postgres", value: { sink: postgresSink } },
    webhook: { summary: "Webhook", value: { sink: webhookSink } },
    kafka: { summary: "Kafka", value: { sink: kafkaSink } },
  },
  validateBuffer: { none: { summary: "No buffer", value: { buffer: null } } },
  createTask: {
    snapshot: {
      summary: "Copy one table",
      value: { Snapshot: { schema: "public", name: "orders" } },
    },
    verify: {
      summary: "Compare one table with its source",
      value: { Verify: { schema: "public", name: "orders", repair: "DryRun" } },
    },
    replay: {
      summary: "Send two rows again",
      value: { Replay: { schema: "public", name: "orders", keys: [{ id: 7 }, { id: "8" }] } },
    },
  },
  retryAllParked: { all: { summary: "All that is parked", value: {} } },
  discardAllParked: {
    table: {
      summary: "Those of one table, parked before a time",
      value: { schema: "public", table: "orders", before: "2026-01-31T12:00:00Z" },
    },
  },
};

/** What a client that follows the events reads. */
export const eventStreamExample = [
  "retry: 1000",
  "id: 4f1d9c2a7be0-0",
  "",
  "id: 4f1d9c2a7be0-1",
  "event: connector",
  'data: {"connector_id":"orders","change":"created"}',
  "",
  "id: 4f1d9c2a7be0-2",
  "event: status",
  'data: {"connector_id":"orders","run_id":"01980a4e-5f0c-7000-8a51-2f9de1c0a7b3","status":{"state":{"start":{}},"status":{"start":{}},"replica":"millrace-0"}}',
  "",
  ":",
  "",
  "",
].join("\n");
