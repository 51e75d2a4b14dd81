import { describe, expect, test } from "bun:test";
import {
  checkConnectorRequest,
  checkSinkBody,
  checkSourceBody,
} from "../../../src/connector/request/check-request.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import {
  connectionSample,
  postgresSinkSample,
  requestSample,
  sourceSample,
  webhookSinkSample,
} from "../samples.ts";

/** The violations: the code, and a message for each path. */
function refusal(check: () => void): { code: string; errors: Record<string, string> } | null {
  try {
    check();
    return null;
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    return {
      code: error.code,
      errors: Object.fromEntries(error.violations.map(({ path, message }) => [path, message])),
    };
  }
}

const refused = (overrides: object) => refusal(() => checkConnectorRequest(requestSample(overrides)));
const refusedWebhook = (overrides: object) => refused({ sink: webhookSinkSample(overrides) });
const refusedConnection = (overrides: object) =>
  refused({ source: sourceSample({ connection: connectionSample(overrides) }) });

describe("valid requests", () => {
  test("minimal connectors", () => {
    expect(refused({})).toBeNull();
    expect(refused({ sink: webhookSinkSample() })).toBeNull();
    expect(refused({ id: "" })).toBeNull();
  });

  test("null for fields that are an object or null", () => {
    expect(
      refused({ buffer: null, limits: null, schedule: null, name: null, identifier_naming: null }),
    ).toBeNull();
    expect(refusedWebhook({ auth: null, signing: null })).toBeNull();
  });

  test("secrets that are omitted, redacted, or null where optional", () => {
    const { password: _, ...withoutPassword } = connectionSample();
    expect(refused({ source: sourceSample({ connection: withoutPassword }) })).toBeNull();
    expect(refusedConnection({ password: "***", ssl_cert: null, ssl_key: null })).toBeNull();
    expect(refusedWebhook({ signing: { secret: "***" }, auth: { bearer: {} } })).toBeNull();
  });

  test("a webhook sink with every field", () => {
    const serde = { json: { options: { embed_schema_in_message: true }, schema_registry: null } };
    const everything = {
      path_template: "/v1/{schema}/{table}/rows",
      format: {
        native: { format_config: { value_serde: serde, key_serde: null }, tombstones_on_delete: true },
      },
      auth: { header: { name: "X-Api-Key", value: "k" } },
      headers: {
        idempotency_key: false,
        source_table_header: "X-Table",
        static: [{ name: "X-Env", value: "prod" }],
      },
      batch: { max_batch_size: 1, max_payload_bytes: 1 },
      compression: "Zstd",
      rate_limit: { max_requests_per_second: 5, max_bytes_per_second: 1e12 },
      retry: { max_retries: 0, max_retry_duration_ms: 0, initial_backoff_ms: 1, max_backoff_ms: 1 },
      request_timeout_ms: 1,
      max_in_flight: 1,
      signing: { secret: `whsec_${"A".repeat(32)}` },
    };
    expect(refusedWebhook(everything)).toBeNull();
  });

  test("a repeated header name, if one of the two is not sent or is overridden", () => {
    const name = "X-Source-Table";
    const headers = { source_table: false, idempotency_key_header: name, static_: [{ name, value: "a" }] };
    expect(refusedWebhook({ headers })).toBeNull();
    const overridden = ["Content-Type", "authorization", "X-Source-Schema", "User-Agent", "Webhook-Id"];
    const static_ = overridden.map((each) => ({ name: each, value: "a" }));
    expect(refusedWebhook({ headers: { static_ }, auth: { bearer: { token: "a" } } })).toBeNull();
    const signing = { secret: `whsec_${"A".repeat(32)}` };
    expect(refusedWebhook({ headers: { idempotency_key_header: "webhook-id" }, signing })).toBeNull();
  });

  test("a catalog as it was read", () => {
    const column = {
      name: "id",
      primary_key: true,
      nullable: false,
      data_type: "bigint",
      supported: true,
      action: "Include",
    };
    const catalog = {
      name: "shop",
      default_action: "Exclude",
      schemas: [
        {
          name: "public",
          action: "Include",
          tables: [{ name: "orders", action: "Include", history_enabled: false, columns: [column] }],
        },
      ],
    };
    expect(refused({ source: sourceSample({ catalog }) })).toBeNull();
  });
});

describe("invalid requests", () => {
  test("lists every violation with its path", () => {
    const sink = { postgres: {}, webhook: {} };
    expect(refused({ id: 1, sink, colour: "red", name: "", disabled: "no" })).toEqual({
      code: "invalid_request",
      errors: {
        "/colour": "unknown key",
        "/id": "expected a string",
        "/sink": "expected exactly one key: postgres, webhook, kafka",
        "/sink/postgres/connection": "required",
        "/sink/webhook/url": "required",
        "/disabled": "expected true or false",
        "/name": "expected at least 1 character(s)",
      },
    });
  });

  test("violations of schema and rules are reported together", () => {
    const never = { schedule: { cron: { expression: "0 0 31 2 *", timezone: "UTC" } } };
    const copies = { source: sourceSample({ replication_type: { snapshot: {} } }) };
    expect(refused({ ...copies, ...never })?.errors).toEqual({
      "/schedule/cron/expression": "never comes: there is no such day",
    });
    const schedule = { cron: { expression: "* * * *", timezone: "Mars/Olympus" } };
    expect(refused({ schedule, limits: { cdc: { flush_interval_ms: -1 }, other: {} } })?.errors).toEqual({
      "/limits/other": "unknown key",
      "/limits/cdc/flush_interval_ms": "expected a whole number from 0 to 3600000",
      "/schedule": "allowed with replication_type snapshot only",
      "/schedule/cron/expression": "expected a cron expression of five fields",
      "/schedule/cron/timezone": "expected a name of the IANA time zone database",
    });
  });

  test("values that are not objects", () => {
    for (const body of [null, [], "text", 1, true, undefined]) {
      expect(refusal(() => checkConnectorRequest(body))?.code).toBe("invalid_request");
    }
    expect(refusal(() => checkSourceBody({}))?.errors).toEqual({ "/source": "required" });
    expect(refusal(() => checkSinkBody({ sink: {}, source: {} }))?.errors).toEqual({
      "/source": "unknown key",
      "/sink": "expected exactly one key: postgres, webhook, kafka",
    });
  });

  test.each([
    [{ port: "5432" }, "/source/postgres/connection/port"],
    [{ port: 0 }, "/source/postgres/connection/port"],
    [{ port: 65_536 }, "/source/postgres/connection/port"],
    [{ port: 1.5 }, "/source/postgres/connection/port"],
    [{ ssl_mode: "prefer" }, "/source/postgres/connection/ssl_mode"],
    [{ ssl_mode: "Prefer\n" }, "/source/postgres/connection/ssl_mode"],
    [{ password: null }, "/source/postgres/connection/password"],
    [{ ssl_cert: 1 }, "/source/postgres/connection/ssl_cert"],
    [{ host: "" }, "/source/postgres/connection/host"],
    [{ user: "a\0database\0other" }, "/source/postgres/connection/user"],
    [{ "a/b~c": 1 }, "/source/postgres/connection/a~1b~0c"],
  ])("a connection with %j", (overrides, path) => {
    expect(Object.keys(refusedConnection(overrides)?.errors ?? {})).toEqual([path]);
  });

  test.each([
    [{ url: "ftp://example.com" }, "/sink/webhook/url"],
    [{ url: "https://user:pass@example.com" }, "/sink/webhook/url"],
    [{ url: "https://" }, "/sink/webhook/url"],
    [{ url: "https://exa mple.com" }, "/sink/webhook/url"],
    [{ url: "https://[::1" }, "/sink/webhook/url"],
    [{ path_template: "{schema}/{tabel}" }, "/sink/webhook/path_template"],
    [{ path_template: "{schema" }, "/sink/webhook/path_template"],
    [{ headers: { static_: [{ name: "X A", value: "b" }] } }, "/sink/webhook/headers/static_/0/name"],
    [
      { headers: { static_: [{ name: "X-A", value: "b\r\nX-B: c" }] } },
      "/sink/webhook/headers/static_/0/value",
    ],
    [{ headers: { static_: [], static: [] } }, "/sink/webhook/headers/static"],
    [{ headers: { idempotency_key_header: "" } }, "/sink/webhook/headers/idempotency_key_header"],
    [{ headers: { source_table_header: "Content-Type" } }, "/sink/webhook/headers/source_table_header"],
    [{ headers: { source_schema_header: "idempotency-key" } }, "/sink/webhook/headers/source_schema_header"],
    [
      { headers: { idempotency_key_header: "authorization" }, auth: { bearer: { token: "a" } } },
      "/sink/webhook/headers/idempotency_key_header",
    ],
    [{ auth: { header: { name: "X-Source-Table", value: "a" } } }, "/sink/webhook/auth/header/name"],
    [{ auth: { header: { name: "Host", value: "a" } } }, "/sink/webhook/auth/header/name"],
    [{ max_in_flight: 0 }, "/sink/webhook/max_in_flight"],
    [{ auth: { bearer: { token: "a\nb" } } }, "/sink/webhook/auth/bearer/token"],
    [{ auth: { basic: { username: "a:b", password: "c" } } }, "/sink/webhook/auth/basic/username"],
    [{ auth: { bearer: { token: "a" }, basic: { username: "a" } } }, "/sink/webhook/auth"],
    [{ compression: "gzip" }, "/sink/webhook/compression"],
    [{ batch: { max_payload_bytes: 0 } }, "/sink/webhook/batch/max_payload_bytes"],
    [{ signing: { secret: "whsec_short" } }, "/sink/webhook/signing/secret"],
  ])("a webhook with %j", (overrides, path) => {
    expect(Object.keys(refusedWebhook(overrides)?.errors ?? {})).toEqual([path]);
  });

  test("messages never repeat the request's values", () => {
    const secret = "do-not-repeat";
    const answers = [
      refusedConnection({ password: { [secret]: secret } }),
      refusedConnection({ ssl_mode: secret, port: secret }),
      refusedWebhook({ url: secret, auth: { bearer: { token: `${secret}\n` } } }),
    ];
    for (const answer of answers) expect(Object.values(answer?.errors ?? {}).join()).not.toContain(secret);
  });

  test("contradictory catalogs", () => {
    const catalog = {
      schemas: [
        {
          name: "public",
          tables: [
            { name: "orders", columns: [{ name: "id", primary_key: true, action: "Exclude" }] },
            { name: "orders", columns: [{ name: "mail" }, { name: "mail" }] },
          ],
        },
      ],
    };
    const tables = "/source/postgres/catalog/schemas/0/tables";
    expect(refused({ source: sourceSample({ catalog }) })?.errors).toEqual({
      [`${tables}/0/columns/0/action`]: "a column of the primary key cannot be excluded",
      [`${tables}/1/columns/1/name`]: "listed more than once",
      [`${tables}/1/name`]: "listed more than once",
    });
  });
});

describe("target_schema", () => {
  const path = "/sink/postgres/target_schema";
  const refusedSchema = (target_schema: string) =>
    refused({ sink: { postgres: { ...postgresSinkSample().postgres, target_schema } } });

  test.each(["pg_mine", "information_schema", "millrace"])("%s is reserved", (name) => {
    expect(refusedSchema(name)?.errors).toEqual({ [path]: "kept by the server, or by millrace, for itself" });
  });

  test("has the server's maximum length", () => {
    expect(refusedSchema("é".repeat(31))).toBeNull();
    const tooLong = { [path]: "expected a name of at most 63 bytes, without NUL" };
    expect(refusedSchema("é".repeat(32))?.errors).toEqual(tooLong);
    expect(refusedSchema("a\0b")?.errors).toEqual(tooLong);
  });
});

describe("kinds that are known but not implemented", () => {
  test.each([
    [{ sink: { clickhouse: { host: 1 } } }, "/sink/clickhouse"],
    [{ source: { mysql: {} } }, "/source/mysql"],
    [
      { source: sourceSample({ replication_type: { query_based: { interval: 1 } } }) },
      "/source/postgres/replication_type/query_based",
    ],
    [{ buffer: { object_store: {} } }, "/buffer/object_store"],
    [{ buffer: { object_store: { url: "s3://bucket", allow_http: 1 } } }, "/buffer/object_store"],
    [
      {
        sink: webhookSinkSample({
          format: {
            debezium: { format_config: { value_serde: { json: { schema_registry: { url: "http://r" } } } } },
          },
        }),
      },
      "/sink/webhook/format/debezium/format_config/value_serde/json/schema_registry",
    ],
    [
      { sink: webhookSinkSample({ format: { native: { format_config: { value_serde: { avro: {} } } } } }) },
      "/sink/webhook/format/native/format_config/value_serde/avro",
    ],
    [
      {
        sink: webhookSinkSample({
          format: { supermetal: { format_config: { key_serde: { protobuf: {} } } } },
        }),
      },
      "/sink/webhook/format/supermetal/format_config/key_serde/protobuf",
    ],
  ])("%j", (overrides, path) => {
    expect(refused(overrides)).toEqual({
      code: "unsupported_kind",
      errors: { [path]: "known, and not supported yet" },
    });
  });

  test("is reported together with other violations", () => {
    expect(refused({ sink: { clickhouse: {} }, colour: 1 })).toEqual({
      code: "invalid_request",
      errors: { "/colour": "unknown key", "/sink/clickhouse": "known, and not supported yet" },
    });
  });

  test("features that are not implemented are refused, not silently ignored", () => {
    const tables = [{ name: "orders", history_enabled: true, columns: [{ name: "mail", hash: {} }] }];
    const answer = refused({
      source: sourceSample({
        replication_type: { snapshot: {} },
        catalog: { column_hashing: { salt: "s" }, schemas: [{ name: "public", tables }] },
      }),
      sink: webhookSinkSample(),
      schedule: { rate: { value: 1, unit: "Day" } },
      identifier_naming: { FivetranNaming: {} },
    });
    expect(answer?.code).toBe("unsupported_kind");
    // A receiver gets every change: a history that is asked for is accepted.
    expect(Object.keys(answer?.errors ?? {})).toEqual(["/identifier_naming/FivetranNaming"]);
  });

  test("an invalid alternate bastion, on either side", () => {
    const auth = { bring_your_own_key: { private_key: "k" } };
    const ssh = { bastion_host: "b", user: "u", auth, bastion_alternates: ["c:22", "c:x"] };
    const connection = connectionSample({ tunnel: { ssh } });
    expect(refused({ source: sourceSample({ connection }), sink: { postgres: { connection } } })).toEqual({
      code: "invalid_request",
      errors: {
        "/source/postgres/connection/tunnel/ssh/bastion_alternates/1": "expected host or host:port",
        "/sink/postgres/connection/tunnel/ssh/bastion_alternates/1": "expected host or host:port",
      },
    });
  });

  test("invalid host keys of a tunnel, on either side, and an empty list of them", () => {
    const auth = { bring_your_own_key: { private_key: "k" } };
    const through = (host_keys: readonly string[]) =>
      connectionSample({ tunnel: { ssh: { bastion_host: "b", user: "u", auth, host_keys } } });
    const connection = through([`SHA256:${"a".repeat(43)}`, "bastion ssh-ed25519 secret"]);
    const problem = 'leave out the host name: "ssh-ed25519 AAAA…"';
    expect(refused({ source: sourceSample({ connection }), sink: { postgres: { connection } } })).toEqual({
      code: "invalid_request",
      errors: {
        "/source/postgres/connection/tunnel/ssh/host_keys/1": problem,
        "/sink/postgres/connection/tunnel/ssh/host_keys/1": problem,
      },
    });
    const empty = refused({ source: sourceSample({ connection: through([]) }) });
    expect(Object.keys(empty?.errors ?? {})).toEqual(["/source/postgres/connection/tunnel/ssh/host_keys"]);
    const [message] = Object.values(empty?.errors ?? {});
    expect(message).toMatch(
      /^expected at least 1 item\(s\)\. .*ssh-ed25519 AAAA….*SHA256:….*Left out: any key is accepted/,
    );
  });

  test("comparisons of what has no rows at a sink, or is copied in rounds", () => {
    const limits = { verify: { every_hours: 24 } };
    const path = "/limits/verify/every_hours";
    expect(refused({ limits })).toBeNull();
    expect(refusedWebhook({})).toBeNull();
    expect(Object.keys(refused({ limits, sink: webhookSinkSample({}) })?.errors ?? {})).toEqual([path]);
    const rounds = { source: sourceSample({ replication_type: { snapshot: {} } }) };
    expect(Object.keys(refused({ limits, ...rounds })?.errors ?? {})).toEqual([path]);
    expect(refused({ limits: { verify: { every_hours: 0 } }, ...rounds })).toBeNull();
  });

  test("an unknown kind is an unknown key", () => {
    expect(refused({ sink: { bogus: {} } })).toEqual({
      code: "invalid_request",
      errors: { "/sink/bogus": "unknown key" },
    });
  });
});
