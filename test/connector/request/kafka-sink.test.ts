// What is refused of a Kafka sink: the path and the reason of each.

import { describe, expect, test } from "bun:test";
import { checkConnectorRequest } from "../../../src/connector/request/check-request.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { kafkaSinkSample, requestSample } from "../samples.ts";

const brokers = ["kafka.internal:9092"];

function refusal(
  overrides: object,
  more: object = {},
): { code: string; errors: Record<string, string> } | null {
  try {
    checkConnectorRequest(requestSample({ sink: kafkaSinkSample(overrides), ...more }));
    return null;
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    const errors = error.violations.map(({ path, message }) => [path.replace("/sink/kafka", ""), message]);
    return { code: error.code, errors: Object.fromEntries(errors) };
  }
}

const errorsOf = (overrides: object) => refusal(overrides)?.errors ?? {};
const ofAuth = (auth: object) => errorsOf({ connection: { brokers, auth } });
const ofConfig = (config: object) => errorsOf({ connection: { brokers, config } });
const logIn = { mechanism: "ScramSha256", username: "u", password: "p" };

test("every field at once is taken", () => {
  const avro = {
    avro: {
      options: { auto_register: false, subject_name_strategy: "RecordName" },
      schema_registry: { url: "https://registry", username: "u", password: "p", ssl_ca: "***" },
    },
  };
  expect(
    refusal({
      connection: {
        brokers: ["a.internal:9092", "[::1]:9092", "10.0.0.1:1", "b_c-d:65535"],
        auth: {
          protocol: "SaslSsl",
          ...logIn,
          ssl_ca_location: "/etc/ca.pem",
          ssl_certificate_location: "/etc/c.pem",
          ssl_key_location: "/etc/k.pem",
          ssl_key_password: "x",
        },
        config: {
          acks: "All",
          enable_idempotence: true,
          producer_pool_size: 1,
          partitioner: "murmur2_random",
          client_id: "shop",
          transactions: { enabled: true, transactional_id: "shop-1" },
          global_properties: [{ key: "linger.ms", value: "5" }],
          producer_properties: [{ key: "ssl.key.password" }],
        },
      },
      format: {
        debezium: {
          format_config: { value_serde: avro, key_serde: null },
          tombstones_on_delete: false,
          headers: {
            op: true,
            db: true,
            schema: true,
            tbl: true,
            context: true,
            pk_update: false,
            prefix: "",
            op_name: "o",
            db_name: "d",
            schema_name: "s",
            tbl_name: "t",
            context_name: "c",
            source_name: "from",
            source_template: "{connector}: {database} {schema}.{table}",
          },
        },
      },
      name: "shop",
      topic_name_template: "{database}-{schema}-{table}-{database_or_schema}",
      topic_options: {
        partitions: 3,
        replication_factor: 3,
        naming_mode: "Unicode",
        operation_timeout_ms: 1,
        config: [{ key: "cleanup.policy", value: "compact" }],
      },
    }),
  ).toBeNull();
});

test("receipts can be kept", () => {
  expect(refusal({}, { limits: { receipts_hours: 24 } })).toBeNull();
});

test("what is missing", () => {
  const bare = { kafka: { connection: {} } };
  expect(refusal({}, { sink: bare })).toEqual({
    code: "invalid_request",
    errors: { "/connection/brokers": "required", "/format": "required", "/topic_options": "required" },
  });
});

describe("brokers", () => {
  test.each([
    ["kafka.internal"],
    ["kafka.internal:0"],
    ["kafka.internal:65536"],
    ["kafka.internal:09092"],
    ["PLAINTEXT://kafka.internal:9092"],
    ["::1:9092"],
    [":9092"],
    ["user@kafka:9092"],
    ["a:9092,b:9092"],
  ])("%s", (broker) => {
    expect(errorsOf({ connection: { brokers: [broker] } })["/connection/brokers/0"]).toContain(
      "Expected host:port, or [address]:port for IPv6",
    );
  });

  test("an address that is none, and one that is listed twice, whatever its case", () => {
    expect(errorsOf({ connection: { brokers: ["[:::]:1", "kafka:1", "KAFKA:1"] } })).toEqual({
      "/connection/brokers/0": "expected an IPv6 address in brackets",
      "/connection/brokers/2": "listed more than once",
    });
    expect(Object.keys(errorsOf({ connection: { brokers: [] } }))).toEqual(["/connection/brokers"]);
  });
});

describe("auth", () => {
  const at = (field: string) => `/connection/auth/${field}`;

  test.each([
    ["Plaintext", {}],
    ["SaslPlaintext", logIn],
  ])("%s uses nothing of TLS", (protocol, more) => {
    const tls = {
      ssl_ca: "a",
      ssl_certificate: "a",
      ssl_key: "a",
      ssl_key_password: "a",
      ssl_ca_location: "/a",
      ssl_certificate_location: "/a",
      ssl_key_location: "/a",
    };
    const message = `not used with protocol ${protocol}: leave it out, or set protocol to Ssl or SaslSsl`;
    expect(ofAuth({ protocol, ...more, ...tls })).toEqual(
      Object.fromEntries(Object.keys(tls).map((field) => [at(field), message])),
    );
    expect(ofAuth({ protocol, ...more, ssl_ca: null, ssl_key: null })).toEqual({});
  });

  test.each(["Plaintext", "Ssl"])("%s uses no log-in", (protocol) => {
    const message = `not used with protocol ${protocol}: leave it out, or set protocol to SaslPlaintext or SaslSsl`;
    expect(ofAuth({ protocol, ...logIn })).toEqual({
      [at("mechanism")]: message,
      [at("username")]: message,
      [at("password")]: message,
    });
  });

  test("a log-in needs a mechanism and a user name; its password may be stored", () => {
    expect(ofAuth({ protocol: "SaslSsl" })).toEqual({
      [at("mechanism")]: "required with protocol SaslSsl",
      [at("username")]: "required with protocol SaslSsl",
    });
    expect(ofAuth({ protocol: "SaslSsl", mechanism: "Plain", username: "u" })).toEqual({});
  });

  test("a user name of a property may be stored too", () => {
    const auth = { protocol: "SaslSsl", mechanism: "Plain" };
    const config = { global_properties: [{ key: "sasl.username" }] };
    expect(errorsOf({ connection: { brokers, auth, config } })).toEqual({});
  });

  test("a text and a path for one thing", () => {
    const texts = { ssl_ca: "a", ssl_certificate: "***", ssl_key: "a" };
    const paths = { ssl_ca_location: "/a", ssl_certificate_location: "/a", ssl_key_location: "/a" };
    expect(ofAuth({ protocol: "Ssl", ...texts, ...paths })).toEqual({
      [at("ssl_ca_location")]: "given beside ssl_ca: give one of the two",
      [at("ssl_certificate_location")]: "given beside ssl_certificate: give one of the two",
      [at("ssl_key_location")]: "given beside ssl_key: give one of the two",
    });
  });

  test("a path that is not absolute", () => {
    expect(ofAuth({ protocol: "Ssl", ssl_ca_location: "ca.pem" })[at("ssl_ca_location")]).toContain(
      "An absolute path on the machine that the service runs on.",
    );
  });
});

describe("config", () => {
  const at = (field: string) => `/connection/config/${field}`;

  test("acks", () => {
    const off = { transactions: { enabled: false } };
    expect(ofConfig({ acks: "None", ...off })).toEqual({
      [at("acks")]:
        "changes would count as delivered that no broker has: All, or Leader with transactions off",
    });
    expect(ofConfig({ acks: "Leader" })).toEqual({
      [at("acks")]: 'transactions demand All: leave acks out, or set transactions to {"enabled": false}',
    });
    expect(Object.keys(ofConfig({ acks: "Leader", transactions: { enabled: true } }))).toEqual([at("acks")]);
    expect(ofConfig({ acks: "Leader", ...off, enable_idempotence: true })).toEqual({
      [at("acks")]: "enable_idempotence demands All: leave one of the two out",
    });
    expect(ofConfig({ acks: "Leader", ...off })).toEqual({});
    expect(ofConfig({ acks: "Leader", transactions: {} })).toEqual({});
    expect(ofConfig({ acks: "All", ...off, enable_idempotence: true })).toEqual({});
  });

  test("a pool, and another partitioner", () => {
    expect(ofConfig({ producer_pool_size: 2, partitioner: "consistent_random" })).toEqual({
      [at("producer_pool_size")]: "one producer keeps the order and the transactions: 0 or 1",
      [at("partitioner")]:
        "expected murmur2 or murmur2_random: with another one a key would be in another partition than other producers put it in",
    });
  });

  test.each([
    [{ batch_size: 0 }, "batch_size"],
    [{ linger_ms: 900_001 }, "linger_ms"],
    [{ message_max_bytes: 999 }, "message_max_bytes"],
    [{ message_max_bytes: 1_000_000_001 }, "message_max_bytes"],
    [{ timeout_ms: 0 }, "timeout_ms"],
    [{ transactions: { timeout_ms: 999 } }, "transactions/timeout_ms"],
    [{ transactions: { transactional_id: "a b" } }, "transactions/transactional_id"],
    [{ transactions: { transactional_id: "" } }, "transactions/transactional_id"],
    [{ acks: "all" }, "acks"],
    [{ producer_preset: "Fast" }, "producer_preset"],
    [{ client_id: "" }, "client_id"],
    [{ queue_buffering_max_kbytes: 0 }, "queue_buffering_max_kbytes"],
    [{ linger: 1 }, "linger"],
    [{ transactions: { enable: true } }, "transactions/enable"],
    [{ global_properties: [{ key: "", value: "1" }] }, "global_properties/0/key"],
    [{ global_properties: [{ key: "acks", value: 1 }] }, "global_properties/0/value"],
  ])("%j", (config, field) => {
    expect(Object.keys(ofConfig(config))).toEqual([at(field)]);
  });
});

describe("formats", () => {
  const serde = (registry: object) => ({
    native: { format_config: { value_serde: { avro: { schema_registry: registry } } } },
  });
  const at = "/format/native/format_config/value_serde/avro";

  test("Avro needs a registry", () => {
    const format = { native: { format_config: { value_serde: { avro: {} } } } };
    expect(errorsOf({ format })).toEqual({ [`${at}/schema_registry`]: "required" });
    expect(errorsOf({ format: serde({}) })).toEqual({ [`${at}/schema_registry/url`]: "required" });
  });

  test.each([
    [{ url: "ftp://registry" }, "url"],
    [{ url: "http://u:p@registry" }, "url"],
    [{ url: "https://[::1" }, "url"],
    [{ url: "http://registry", password: "p" }, "username"],
    [{ url: "http://registry", ssl_ca: "***" }, "ssl_ca"],
    [{ url: "http://registry", username: "a:b" }, "username"],
  ])("a registry %j", (registry, field) => {
    expect(Object.keys(errorsOf({ format: serde(registry) }))).toEqual([`${at}/schema_registry/${field}`]);
  });

  test("headers with one name, or with half of a source", () => {
    const headers = (given: object) => errorsOf({ format: { debezium: { headers: given } } });
    const path = "/format/debezium/headers";
    const taken = "another header has this name";
    expect(headers({ op: true, db: true, op_name: "__db" })).toEqual({ [`${path}/db`]: taken });
    expect(headers({ op_name: "__db", db: true })).toEqual({});
    expect(headers({ tbl: true, tbl_name: "__debezium.newkey" })).toEqual({ [`${path}/tbl_name`]: taken });
    expect(headers({ tbl: true, tbl_name: "__debezium.newkey", pk_update: false })).toEqual({});
    const source = { source_name: "__op", source_template: "{table}" };
    expect(headers({ op: true, ...source })).toEqual({ [`${path}/source_name`]: taken });
    expect(headers({ source_name: "from" })).toEqual({
      [`${path}/source_template`]: "required with source_name; or leave both out",
    });
    expect(headers({ source_template: "{table}" })).toEqual({
      [`${path}/source_name`]: "required with source_template; or leave both out",
    });
    const unknown = headers({ source_name: "from", source_template: "{tabel}" });
    expect(Object.keys(unknown)).toEqual([`${path}/source_template`]);
    expect(headers({ operation: true })).toEqual({ [`${path}/operation`]: "unknown key" });
  });
});

describe("topics", () => {
  test.each([
    [{ topic_name_template: "{schema}.{tabel}" }, "/topic_name_template"],
    [{ topic_name_template: "{schema" }, "/topic_name_template"],
    [{ topic_name_template: "" }, "/topic_name_template"],
    [{ name: "a b" }, "/name"],
    [{ name: "n".repeat(250) }, "/name"],
    [{ topic_options: { partitions: 0 } }, "/topic_options/partitions"],
    [{ topic_options: { partitions: 100_001 } }, "/topic_options/partitions"],
    [{ topic_options: { replication_factor: 32_768 } }, "/topic_options/replication_factor"],
    [{ topic_options: { naming_mode: "default" } }, "/topic_options/naming_mode"],
    [{ topic_options: { config: [{ key: "", value: "" }] } }, "/topic_options/config/0/key"],
    [{ topic_options: { config: [{ key: "a" }] } }, "/topic_options/config/0/value"],
  ])("%j", (overrides, path) => {
    expect(Object.keys(errorsOf(overrides))).toEqual([path]);
  });

  test("a setting that is given twice", () => {
    const config = [1, 2].map((value) => ({ key: "retention.ms", value: String(value) }));
    expect(errorsOf({ topic_options: { config } })).toEqual({
      "/topic_options/config/1/key": "listed more than once",
    });
  });
});

describe("what is known and not built", () => {
  const unsupported = (path: string) => ({
    code: "unsupported_kind",
    errors: { [path]: "known, and not supported yet" },
  });

  test.each(["OauthBearer", "GssApi"])("mechanism %s", (mechanism) => {
    const auth = { protocol: "SaslSsl", mechanism };
    expect(refusal({ connection: { brokers, auth } })).toEqual(unsupported("/connection/auth/mechanism"));
    const other = refusal({ connection: { brokers, auth: { ...auth, realm: 1 } } });
    expect(other).toEqual({
      code: "invalid_request",
      errors: {
        "/connection/auth/realm": "unknown key",
        "/connection/auth/mechanism": "known, and not supported yet",
      },
    });
    expect(ofAuth({ protocol: "SaslSsl", mechanism: "scram" })["/connection/auth/mechanism"]).toStartWith(
      "expected one of: Plain",
    );
  });

  test("serdes and registries", () => {
    const path = "/format/native/format_config/value_serde";
    const format = (value_serde: object) => ({ format: { native: { format_config: { value_serde } } } });
    expect(refusal(format({ protobuf: { schema_registry: 1 } }))).toEqual(unsupported(`${path}/protobuf`));
    expect(refusal(format({ json: { schema_registry: { url: "http://r" } } }))).toEqual(
      unsupported(`${path}/json/schema_registry`),
    );
  });

  test("other names of tables", () => {
    const naming = { identifier_naming: { FivetranNaming: {} } };
    expect(refusal({}, naming)).toEqual(unsupported("/identifier_naming/FivetranNaming"));
  });
});
