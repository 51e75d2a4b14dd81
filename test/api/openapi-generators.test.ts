// What generators of clients need of the OpenAPI document. test/clients makes the clients, which takes minutes.

import { describe, expect, test } from "bun:test";
import { checksBodies } from "../support/oracles/documented-answers.ts";
import { apiClient, connection, connector, source } from "./api-client.ts";

// biome-ignore lint/suspicious/noExplicitAny: the test looks into a JSON document.
type Schema = Record<string, any>;

const api = apiClient();
const { body: document } = await api.call("GET", "/swagger/json");
const components: Record<string, Schema> = document.components.schemas;

/** Every schema with where it stands, also in operations; not the values of enums and examples. */
function* schemasIn(value: unknown, at = ""): Generator<{ readonly at: string; readonly schema: Schema }> {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* schemasIn(item, `${at}/${index}`);
  } else if (typeof value === "object" && value !== null) {
    if (!/\/properties$/.test(at)) yield { at, schema: value };
    for (const [key, member] of Object.entries(value)) {
      const isProperty = /\/properties$/.test(at);
      if (isProperty || !["enum", "required", "examples", "example"].includes(key))
        yield* schemasIn(member, `${at}/${key}`);
    }
  }
}

const all = [...schemasIn(document)];

/** What is the same identifier in some language: case and underscores tell nothing apart. */
const identifier = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

/** The names of types that generators make: of the components, and of what stands in them without a name. */
function* typeNames(): Generator<string> {
  for (const [name, { properties = {} }] of Object.entries(components)) {
    yield name;
    for (const [key, property] of Object.entries<Schema>(properties)) {
      const { enum: words, type, items, title } = property.type === "array" ? property.items : property;
      if (title !== undefined) yield title;
      if (words !== undefined || type === "object" || items !== undefined) yield `${name}_${key}`;
    }
  }
}

describe("names", () => {
  test("no two types have one", () => {
    const names = [...typeNames()];
    const seen = Map.groupBy(names, identifier);
    expect([...seen.values()].filter((same) => same.length > 1)).toEqual([]);
    expect(names.length).toBeGreaterThan(200);
  });

  test("no two properties of a schema have one", () => {
    for (const { at, schema } of all) {
      const keys = Object.keys(schema.properties ?? {}).map(identifier);
      expect([at, keys.length]).toEqual([at, new Set(keys).size]);
    }
  });

  test("no required property has a name that Go's constructors need", () => {
    const taken = Object.entries(components).filter(([, { required }]) =>
      (required as string[] | undefined)?.includes("this"),
    );
    expect(taken.map(([name]) => name)).toEqual([]);
  });

  test("`static_` has no second name", () => {
    expect(components.WebhookSinkHeadersRequest?.properties).not.toHaveProperty("static");
    expect(components.WebhookSinkHeadersPatch?.properties).not.toHaveProperty("static");
    expect(JSON.stringify(document)).not.toContain("x-alias-of");
  });

  test("every member of a union is a schema with a name", () => {
    const unions = all.filter(({ schema }) => schema.oneOf ?? schema.anyOf);
    expect(unions.length).toBeGreaterThan(20);
    for (const { at, schema } of unions) {
      for (const member of schema.oneOf ?? schema.anyOf)
        expect([at, Object.keys(member)]).toEqual([at, ["$ref"]]);
    }
    for (const name of ["StateStart", "HealthStart", "SourcePostgresRequest", "SinkPostgres"])
      expect(components).toHaveProperty(name);
  });

  test("every body is a schema with a name", () => {
    const bodies = all.filter(({ at, schema }) => at.startsWith("/paths/") && schema.type === "object");
    expect(bodies).toEqual([]);
  });

  test("every reference leads somewhere, and nothing is unused", () => {
    const used = new Set(
      all.flatMap(({ schema }) => (schema.$ref ? [String(schema.$ref).split("/").at(-1)] : [])),
    );
    for (const name of used) expect(components).toHaveProperty(name ?? "");
    expect(Object.keys(components).filter((name) => !used.has(name))).toEqual([]);
  });
});

describe("values", () => {
  test("every enum has values, and they fit its type", () => {
    const enums = all.filter(({ schema }) => schema.enum !== undefined);
    expect(enums.length).toBeGreaterThan(20);
    for (const { at, schema } of enums) {
      expect([at, schema.enum.length]).not.toEqual([at, 0]);
      for (const value of schema.enum) expect([at, typeof value]).toEqual([at, schema.type]);
    }
  });

  test("what is always null is a nullable object that no object fits", () => {
    expect(components.SerdeJsonValue?.properties.schema_registry).toMatchObject({
      type: "object",
      nullable: true,
      not: { type: "object" },
    });
  });

  test("nullable stands beside a type or a reference", () => {
    for (const { at, schema } of all.filter(({ schema }) => schema.nullable !== undefined))
      expect([at, schema.type !== undefined || schema.allOf?.length === 1]).toEqual([at, true]);
  });
});

describe("patterns", () => {
  const patterns = new Set(
    all.flatMap(({ schema }) => (typeof schema.pattern === "string" ? [schema.pattern] : [])),
  );

  test.each([...patterns].map((pattern) => [pattern]))("%s is one in every dialect", (pattern) => {
    for (const flags of ["", "u", "v"]) expect(() => new RegExp(pattern, flags)).not.toThrow();
    const plain = pattern.replaceAll(/\\./g, "").replaceAll(/\{\d+(?:,\d*)?\}/g, "");
    expect(plain).not.toMatch(/[{}]/);
    // Go's dialect has neither \u nor looking around, and some readers end a text at NUL.
    expect(pattern).not.toMatch(/\\u|\\x00|\(\?[=!<]/);
  });

  test("there are some", () => expect(patterns.size).toBeGreaterThan(5));
});

const described = checksBodies(document);
const unknown = "not_a_key";

/** The value with an unknown key in each of its objects in turn. */
function* withUnknownKeys(value: unknown, member: unknown): Generator<unknown> {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries())
      for (const changed of withUnknownKeys(item, member)) yield value.with(index, changed);
  } else if (typeof value === "object" && value !== null) {
    yield { ...value, [unknown]: member };
    for (const [key, inner] of Object.entries(value))
      for (const changed of withUnknownKeys(inner, member)) yield { ...value, [key]: changed };
  }
}

const catalog = {
  column_hashing: { algorithm: "Sha256", salt: "salt" },
  schemas: [
    { name: "public", tables: [{ name: "t", columns: [{ name: "c", hash: {} }], target_option: {} }] },
  ],
};
const tunnel = {
  ssh: {
    bastion_host: "bastion",
    user: "tunnel",
    auth: { generated_key: { private_key: "key", public_key: "ssh-ed25519 AAAA" } },
  },
};
const webhook = {
  url: "https://api.example.com",
  format: {
    debezium: { format_config: { value_serde: { json: { options: {} } } }, data_types: {}, headers: {} },
  },
  auth: { bearer: { token: "t" } },
  headers: { static_: [{ name: "X-Env", value: "prod" }] },
  batch: {},
  rate_limit: {},
  retry: {},
  signing: { secret: `whsec_${"A".repeat(32)}` },
};
const large = connector({
  source: source({
    catalog,
    keyless_table_strategy: { append_only: {} },
    system_columns: { lsn: {}, op: {} },
  }),
  sink: { webhook },
  limits: { cdc: {}, snapshot: {} },
  identifier_naming: { SourceNaming: {} },
});
const tunnelled = connector({
  source: source({ connection: connection({ tunnel }) }),
  sink: { postgres: { connection: connection(), migration_strategy: {} } },
});

const kafka = {
  connection: {
    brokers: ["kafka.internal:9092"],
    auth: { protocol: "SaslPlaintext", mechanism: "Plain", username: "u", password: "p" },
    config: { transactions: { enabled: true }, producer_properties: [{ key: "linger.ms", value: "5" }] },
  },
  format: {
    debezium: {
      format_config: {
        value_serde: { avro: { options: {}, schema_registry: { url: "http://registry" } } },
        key_serde: { json: { options: {} } },
      },
      data_types: {},
      headers: { op: true },
    },
  },
  topic_options: { config: [{ key: "cleanup.policy", value: "compact" }] },
};
const streamed = connector({ sink: { kafka } });

const create = { method: "POST", path: "/api/v1/connectors/{connector_id}" };
const patch = { method: "PATCH", path: "/api/v1/connectors/{connector_id}" };
const task = { method: "POST", path: "/api/v1/connectors/{connector_id}/tasks" };

/** Whether the service refuses a key or a value of the body by its schema. */
async function refuses({ method, path }: typeof create, body: unknown): Promise<boolean> {
  const answer = await api.call(method, path.replace("{connector_id}", "mine"), body);
  const code = answer.body?.code;
  // A secret or a key that cannot work is none of the schema's business.
  const onlySecrets = answer.body?.errors?.every(({ path }: { path: string }) =>
    path.endsWith("private_key"),
  );
  return (code === "invalid_request" || code === "unsupported_kind") && onlySecrets !== true;
}

describe("additionalProperties says what the service does", () => {
  const { url: _, ...changeable } = webhook;
  test.each([
    ["a connector", create, large, "x"],
    ["a connector behind a tunnel", create, tunnelled, "x"],
    ["a connector to Kafka", create, streamed, "x"],
    ["a task", task, { Snapshot: { schema: "public", name: "t" } }, "x"],
    ["a patch", patch, { ...large, id: "mine", sink: { webhook: changeable } }, "x"],
    ["a patch that removes the key", patch, { ...large, id: "mine", sink: { webhook: changeable } }, null],
  ])("%s", async (_name, operation, body, member) => {
    await api.call("POST", "/api/v1/connectors/mine", large);
    expect(described(operation, body)).toBeNull();
    let count = 0;
    for (const changed of withUnknownKeys(body, member)) {
      const isDescribed = described(operation, changed) === null;
      // In a free-form object, a merge patch with null removes a key that is not there: no change.
      expect([JSON.stringify(changed), !(await refuses(operation, changed))]).toEqual([
        JSON.stringify(changed),
        isDescribed,
      ]);
      count += 1;
    }
    expect(count).toBeGreaterThan(1);
  });
});

describe("rules between fields are in the document", () => {
  const snapshot = { replication_type: { snapshot: {} } };
  const cron = (expression: string, timezone = "Europe/Berlin") => ({ cron: { expression, timezone } });
  const columns = (column: object) =>
    source({
      catalog: { schemas: [{ name: "s", tables: [{ name: "t", columns: [{ name: "c", ...column }] }] }] },
    });
  const sink = (name: string | null) => ({ postgres: { connection: connection(), target_schema: name } });

  test.each<[string, object, boolean]>([
    ["a schedule of a stream", { schedule: cron("0 3 * * *") }, true],
    ["no schedule of a stream", { schedule: null }, false],
    ["a schedule of copies", { source: source(snapshot), schedule: cron("0 3 * * *") }, false],
    [
      "names, ranges and steps",
      { source: source(snapshot), schedule: cron(" */5 1-3 * jan,feb MON ") },
      false,
    ],
    ["four fields", { source: source(snapshot), schedule: cron("0 3 * *") }, true],
    ["seconds", { source: source(snapshot), schedule: cron("0 0 3 * * *") }, true],
    ["an offset", { source: source(snapshot), schedule: cron("0 3 * * *", "+01:00") }, true],
    ["a key column that is excluded", { source: columns({ primary_key: true, action: "Exclude" }) }, true],
    ["a column that is excluded", { source: columns({ primary_key: false, action: "Exclude" }) }, false],
    ["a key column", { source: columns({ primary_key: true }) }, false],
    ["a schema of the server", { sink: sink("pg_temp") }, true],
    ["the service's schema", { sink: sink("millrace") }, true],
    ["a schema with a like name", { sink: sink("millrace_copy") }, false],
    ["each table's own schema", { sink: sink(null) }, false],
    ["null for a registry", { sink: { webhook: { url: "http://h", format: registry(null) } } }, false],
    ["a static header of the connection", { sink: withHeader("tRANSFER-Encoding") }, true],
    ["a static header of the proxy", { sink: withHeader("Proxy-Anything") }, true],
    ["a static header with a like name", { sink: withHeader("X-Host") }, false],
    ["a static header that yields", { sink: withHeader("Content-Type") }, false],
    ["an object for a registry", { sink: { webhook: { url: "http://h", format: registry({}) } } }, true],
  ])("%s", async (_, overrides, isRefused) => {
    const body = connector(overrides);
    expect([described(create, body) !== null, await refuses(create, body)]).toEqual([isRefused, isRefused]);
  });

  test("what no schema can say is in words", () => {
    expect(document.info.description).toContain("NUL");
    expect(document.info.description).toContain("surrogate");
    expect(components.ScheduleCronValue?.properties.timezone.description).toContain("IANA");
  });
});

function withHeader(name: string): object {
  return { webhook: { url: "http://h", headers: { static_: [{ name, value: "a" }] } } };
}

function registry(schemaRegistry: unknown): object {
  return { native: { format_config: { value_serde: { json: { schema_registry: schemaRegistry } } } } };
}

test("a patch may remove what may be left out, and nothing else", async () => {
  await api.call("POST", "/api/v1/connectors/mine", large);
  expect(
    described(patch, { name: null, sink: { webhook: { retry: null, headers: { static_: null } } } }),
  ).toBeNull();
  expect(described(patch, { sink: { webhook: { format: { debezium: null, native: {} } } } })).toBeNull();
  expect(described(patch, { source: null })).not.toBeNull();
  expect(await refuses(patch, { source: null })).toBe(true);
});
