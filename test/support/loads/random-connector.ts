// Random valid connectors, in which everything that may be left out sometimes is.

import fc from "fast-check";
import { bringKey } from "../servers/ssh-keys.ts";
import { testRootCertificate, testServerCertificate, testServerKey } from "../servers/tls-certificates.ts";
import { randomKafkaSink } from "./random-kafka-sink.ts";

/** Schemas of Postgres' own are refused as targets. */
const text = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}$/).filter((name) => !name.startsWith("pg_"));
const secret = fc.stringMatching(/^secret-[a-z0-9]{4,12}$/);
const whole = fc.integer({ min: 1, max: 1000 });
const words = <const T extends readonly string[]>(...list: T) => fc.constantFrom(...list);

/** An object of which every member may be left out. */
const some = <T extends Record<string, fc.Arbitrary<unknown>>>(members: T) =>
  fc.record(members, { requiredKeys: [] });
const empty = fc.constant({});

const privateKey = bringKey("ed25519").privateKey;
const tunnel = fc.record({
  ssh: fc.record(
    {
      bastion_host: text,
      bastion_port: whole,
      user: text,
      bastion_alternates: fc.array(text, { maxLength: 3 }),
      auth: fc.oneof(
        fc.constant({ bring_your_own_key: { private_key: privateKey } }),
        fc.constant({ generated_key: { private_key: privateKey, public_key: "ssh-ed25519 AAAA" } }),
      ),
    },
    { requiredKeys: ["bastion_host", "user", "auth"] },
  ),
});

/** With text before the PEM that tells two apart. */
const pem = (text: string) => secret.map((note) => `${note}\n${text}`);
const tls = fc.oneof(
  some({ ssl_root_cert: pem(testRootCertificate) }),
  fc.record(
    {
      ssl_cert: pem(testServerCertificate),
      ssl_key: pem(testServerKey),
      ssl_root_cert: pem(testRootCertificate),
    },
    { requiredKeys: ["ssl_cert", "ssl_key"] },
  ),
);

const plainConnection = fc.record(
  {
    host: text,
    port: whole,
    user: text,
    password: secret,
    database: text,
    ssl_mode: words("Disable", "Prefer", "Require", "VerifyCa", "VerifyFull"),
    max_pool_size: whole,
    operation_lock_timeout_seconds: whole,
    tunnel,
  },
  { requiredKeys: ["host", "user", "password", "database"] },
);
const connection = fc.tuple(plainConnection, tls).map(([plain, material]) => ({ ...plain, ...material }));

const action = words("Include", "Exclude");
const named = (members: Record<string, fc.Arbitrary<unknown>>) =>
  fc.uniqueArray(fc.record({ name: text, ...members }, { requiredKeys: ["name"] }), {
    maxLength: 3,
    selector: ({ name }) => name,
  });
const column = { action, data_type: text, nullable: fc.boolean(), supported: fc.boolean() };
const catalogs = some({
  name: text,
  default_action: action,
  schemas: named({
    action,
    tables: named({ action, history_enabled: fc.constant(false), columns: named(column) }),
  }),
});
const hashing = fc.record({ algorithm: words("Sha256"), salt: secret }, { requiredKeys: ["salt"] });
const catalog = fc
  .tuple(catalogs, fc.option(hashing, { nil: undefined }))
  .map(([rest, column_hashing]) => ({ ...rest, ...(column_hashing && { column_hashing }) }));

const logical = some({
  publication_name: fc.option(text),
  retry_window_seconds: whole,
  skip_snapshots: fc.boolean(),
  toast_mode: words("ReplicaIdentityFull", "Placeholder"),
});
const sourceFields = {
  connection,
  catalog,
  parallel_snapshots_enabled: fc.boolean(),
  partitions_as_root: fc.boolean(),
  keyless_table_strategy: fc.constantFrom({ append_only: {} }, { dedup_by_row_hash: {} }),
  system_columns: some({
    synced_at: empty,
    lsn: empty,
    op: some({ encoding: words("None", "Char", "Int", "String"), snapshot_as_read: fc.boolean() }),
  }),
};

const postgresSink = fc.record(
  {
    connection,
    target_schema: fc.option(text),
    migration_strategy: some({
      allowed: fc.subarray(["Add", "Drop", "Datatype", "Nullability", "Order"]),
      disable_all: fc.boolean(),
    }),
  },
  { requiredKeys: ["connection"] },
);

const serde = fc.record({
  json: some({
    options: some({ embed_schema_in_message: fc.boolean() }),
    schema_registry: fc.constant(null),
  }),
});
const formatFields = {
  format_config: some({ value_serde: serde, key_serde: fc.option(serde) }),
  tombstones_on_delete: fc.boolean(),
};
const format = fc.oneof(
  fc.record({ native: some(formatFields) }),
  fc.record({ supermetal: some(formatFields) }),
  fc.record({
    debezium: some({
      ...formatFields,
      include_before: fc.boolean(),
      skipped_operations: words("t", "none", "c,u"),
      emit_tx_metadata: fc.boolean(),
      tx_metadata_topic: text,
      data_types: some({
        binary_handling_mode: words("Bytes", "Hex"),
        decimal_handling_mode: words("Precise", "String"),
        time_precision_mode: words("Adaptive", "Connect"),
      }),
      headers: fc.constant({ op: true, prefix: "x" }),
    }),
  }),
);
const auth = fc.oneof(
  fc.record({ bearer: fc.record({ token: secret }) }),
  fc.record({ basic: fc.record({ username: text, password: secret }) }),
  fc.record({ header: fc.record({ name: fc.constant("X-Own"), value: secret }) }),
);
const webhookSink = fc.record(
  {
    // With a letter before it: a host that begins with "xn--" is not any text.
    url: text.map((host) => `https://h${host.replaceAll("_", "-")}x.example`),
    path_template: words("{schema}/{table}", "", "all"),
    format,
    auth: fc.option(auth),
    headers: some({
      idempotency_key: fc.boolean(),
      idempotency_key_header: words("Idempotency-Key", "X-Id"),
      source_schema: fc.boolean(),
      source_table: fc.boolean(),
      static_: fc.uniqueArray(
        fc.record({ name: words("X-Env", "X-Api-Key", "X-Team"), value: words("prod", "Bearer secret-abc") }),
        { maxLength: 3, selector: ({ name }) => name },
      ),
    }),
    batch: some({ max_batch_size: whole, max_payload_bytes: whole }),
    compression: words("None", "Gzip", "Zstd", "Br"),
    rate_limit: some({ max_requests_per_second: whole, max_bytes_per_second: whole }),
    retry: some({
      max_retries: whole,
      max_retry_duration_ms: whole,
      initial_backoff_ms: whole,
      max_backoff_ms: whole,
    }),
    request_timeout_ms: whole,
    max_in_flight: whole,
    signing: fc.option(fc.constant({ secret: `whsec_${"A".repeat(32)}` })),
  },
  { requiredKeys: ["url"] },
);

const limits = some({
  cdc: some({ flush_interval_ms: whole, max_buffer_rows: whole }),
  snapshot: some({ max_buffer_rows: whole }),
});
const schedule = fc.oneof(
  fc.record({ rate: fc.record({ value: whole, unit: words("Minute", "Hour", "Day") }) }),
  fc.constant({ cron: { expression: "0 3 * * *", timezone: "Europe/Berlin" } }),
);
const naming = fc.oneof(
  fc.constant({ SourceNaming: {} }),
  fc.record({
    FivetranNaming: some({
      schema_prefix: fc.option(text),
      column_conflict: words("Fail", "KeepFirst"),
      table_conflict: words("Merge", "Fail"),
    }),
  }),
);

const common = {
  name: fc.option(text),
  buffer: fc.constantFrom(null, {}),
  limits: fc.option(limits),
};
const requiredOfSource = { requiredKeys: ["connection", "replication_type"] } satisfies object;

/** Bodies with the id `id`. They are disabled: nothing runs. */
export function randomConnector(id: string) {
  const streaming = fc.record(
    { ...sourceFields, replication_type: fc.record({ logical_replication: logical }) },
    requiredOfSource as { requiredKeys: ["connection", "replication_type"] },
  );
  const copying = fc.record(
    { ...sourceFields, replication_type: fc.constant({ snapshot: {} }) },
    requiredOfSource as { requiredKeys: ["connection", "replication_type"] },
  );
  const fixed = { id: fc.constant(id), disabled: fc.constant(true) };
  const keys = { requiredKeys: ["id", "disabled", "source", "sink"] } as {
    requiredKeys: ["id", "disabled", "source", "sink"];
  };
  return fc.oneof(
    fc.record(
      {
        ...fixed,
        ...common,
        identifier_naming: fc.option(naming),
        source: fc.record({ postgres: streaming }),
        sink: fc.record({ postgres: postgresSink }),
      },
      keys,
    ),
    fc.record(
      {
        ...fixed,
        ...common,
        schedule: fc.option(schedule),
        source: fc.record({ postgres: copying }),
        sink: fc.record({ postgres: postgresSink }),
      },
      keys,
    ),
    fc.record(
      {
        ...fixed,
        ...common,
        source: fc.record({ postgres: streaming }),
        sink: fc.record({ webhook: webhookSink }),
      },
      keys,
    ),
    fc.record(
      {
        ...fixed,
        ...common,
        source: fc.record({ postgres: streaming }),
        sink: fc.record({ kafka: randomKafkaSink }),
      },
      keys,
    ),
  );
}
