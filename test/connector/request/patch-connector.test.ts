import { describe, expect, test } from "bun:test";
import type { ConnectorConfig } from "../../../src/connector/connector.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import type { JsonObject } from "../../../src/connector/request/merge-patch.ts";
import { patchConnector as patchGiven } from "../../../src/connector/request/patch-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import {
  clientCertificate,
  configSample,
  connectionSample,
  sourceSample,
  webhookSinkSample,
} from "../samples.ts";

const toPostgres = configSample({
  source: sourceSample({ connection: connectionSample(clientCertificate) }),
});
const toWebhook = configSample({
  sink: webhookSinkSample({
    auth: { bearer: { token: "token" } },
    headers: { static: [{ name: "X-A", value: "one" }] },
  }),
});

/** In full form, before and after. */
function patchConnector(stored: ConnectorConfig, patch: JsonObject): ConnectorConfig {
  return completeConnector(patchGiven(stored, patch), stored.id);
}

function refusal(stored: ConnectorConfig, patch: JsonObject): { code: string; paths: string[] } {
  try {
    patchConnector(stored, patch);
  } catch (error) {
    if (error instanceof MillraceError) {
      return { code: error.code, paths: error.violations.map(({ path }) => path) };
    }
    throw error;
  }
  throw new Error("nothing was refused");
}

const sourceConnection = (connection: JsonObject): JsonObject => ({ source: { postgres: { connection } } });

test("an empty patch changes nothing", () => {
  expect(patchConnector(toPostgres, {})).toEqual(toPostgres);
  expect(patchConnector(toWebhook, { id: "orders" })).toEqual(toWebhook);
});

test("members are replaced, and null restores the default", () => {
  const changed = patchConnector(toPostgres, {
    name: "Orders",
    disabled: true,
    limits: { cdc: { flush_interval_ms: 50 } },
    source: { postgres: { connection: { user: "other" }, catalog: { default_action: "Exclude" } } },
  });
  expect(changed).toMatchObject({
    name: "Orders",
    disabled: true,
    limits: { cdc: { flush_interval_ms: 50, max_buffer_rows: 0 } },
  });
  expect(changed.source.postgres?.connection).toMatchObject({ user: "other", password: "source-password" });
  expect(patchConnector(changed, { name: null, disabled: null, limits: null })).toMatchObject({
    name: null,
    disabled: false,
    limits: { cdc: { flush_interval_ms: 0 } },
  });
});

describe("secrets", () => {
  test("a redacted one stays, a new one replaces it, and null clears an optional one", () => {
    const kept = patchConnector(toPostgres, sourceConnection({ password: "***", ssl_cert: "***" }));
    expect(kept).toEqual(toPostgres);
    const patch = sourceConnection({ password: "new", ssl_cert: null, ssl_key: null });
    const changed = patchConnector(toPostgres, patch);
    expect(changed.source.postgres?.connection.password).toBe("new");
    expect(changed.source.postgres?.connection).not.toHaveProperty("ssl_cert");
  });

  test("a client certificate and its key go together, also where one is kept", () => {
    const at = "/source/postgres/connection";
    expect(refusal(toPostgres, sourceConnection({ ssl_cert: null }))).toEqual({
      code: "invalid_request",
      paths: [`${at}/ssl_cert`],
    });
    expect(refusal(toPostgres, sourceConnection({ ssl_key: null })).paths).toEqual([`${at}/ssl_key`]);
    expect(refusal(toPostgres, sourceConnection({ ssl_key: "new" })).paths).toEqual([`${at}/ssl_key`]);
    const kept = patchConnector(toPostgres, sourceConnection({ ssl_cert: "***", user: "other" }));
    expect(kept.source.postgres?.connection).toMatchObject({ user: "other", ...clientCertificate });
  });

  test("a required one cannot be removed", () => {
    expect(refusal(toPostgres, sourceConnection({ password: null }))).toEqual({
      code: "missing_secret",
      paths: ["/source/postgres/connection/password"],
    });
  });

  test("only existing members can be removed", () => {
    const patch = { schedul: null, sink: { postgres: { target_schemaa: null, target_schema: null } } };
    expect(refusal(toPostgres, patch)).toEqual({
      code: "invalid_request",
      paths: ["/schedul", "/sink/postgres/target_schemaa"],
    });
    const tunnel = { source: { postgres: { connection: { tunnel: null, ssl_cert: null, ssl_key: null } } } };
    expect(patchConnector(toPostgres, tunnel).source.postgres?.connection).not.toHaveProperty("tunnel");
  });

  test("a static header without a value keeps its value", () => {
    const headers = { static_: [{ name: "x-a" }, { name: "X-New", value: "2" }] };
    const changed = patchConnector(toWebhook, { sink: { webhook: { headers } } });
    expect(changed.sink.webhook?.headers.static_).toEqual([
      { name: "x-a", value: "one" },
      { name: "X-New", value: "2" },
    ]);
    const cleared = { static_: [{ name: "X-A", value: null }] };
    expect(refusal(toWebhook, { sink: { webhook: { headers: cleared } } }).code).toBe("invalid_request");
    const unknown = { static_: [{ name: "X-C" }] };
    expect(refusal(toWebhook, { sink: { webhook: { headers: unknown } } })).toEqual({
      code: "missing_secret",
      paths: ["/sink/webhook/headers/static_/0/value"],
    });
  });

  test("static headers are replaced as a list, and keep redacted values", () => {
    const headers = {
      static_: [
        { name: "X-B", value: "two" },
        { name: "X-A", value: "***" },
      ],
    };
    const changed = patchConnector(toWebhook, { sink: { webhook: { headers } } });
    expect(changed.sink.webhook?.headers.static_).toEqual([
      { name: "X-B", value: "two" },
      { name: "X-A", value: "one" },
    ]);
    const aliased = { static: [{ name: "X-A", value: "***" }] };
    expect(patchConnector(toWebhook, { sink: { webhook: { headers: aliased } } })).toEqual(toWebhook);
  });
});

describe("fields that cannot change in place", () => {
  test.each<[string, ConnectorConfig, JsonObject, string[]]>([
    ["host", toPostgres, sourceConnection({ host: "other" }), ["/source/postgres/connection/host"]],
    [
      "port, left out before",
      toPostgres,
      sourceConnection({ port: 5433 }),
      ["/source/postgres/connection/port"],
    ],
    [
      "several",
      toPostgres,
      {
        ...sourceConnection({ host: "x", database: "y" }),
        sink: { postgres: { connection: { host: "z" } } },
      },
      [
        "/source/postgres/connection/host",
        "/source/postgres/connection/database",
        "/sink/postgres/connection/host",
      ],
    ],
    ["url", toWebhook, { sink: { webhook: { url: "https://other.example.com" } } }, ["/sink/webhook/url"]],
    ["id", toPostgres, { id: "other" }, ["/id"]],
    ["kind of the sink", toPostgres, { sink: { webhook: { url: "https://x.example" } } }, ["/sink"]],
    ["kind, with null for the old", toPostgres, { sink: { postgres: null, webhook: {} } }, ["/sink"]],
    ["kind of the source", toPostgres, { source: { postgres: null, mysql: {} } }, ["/source"]],
    [
      "kind of replication",
      toPostgres,
      { source: { postgres: { replication_type: { logical_replication: null, snapshot: {} } } } },
      ["/source/postgres/replication_type"],
    ],
  ])("%s", (_, stored, patch, paths) => {
    expect(refusal(stored, patch)).toEqual({ code: "immutable_field", paths });
  });

  test("the same value is not a change", () => {
    expect(patchConnector(toPostgres, sourceConnection({ port: 5432, host: "db.internal" }))).toEqual(
      toPostgres,
    );
  });
});

describe("invalid patches", () => {
  test.each<[JsonObject, string[]]>([
    [{ sink: { bogus: {} } }, ["/sink", "/sink/bogus"]],
    [{ sink: { postgres: null } }, ["/sink"]],
    [{ sink: null }, ["/sink"]],
    [{ colour: "red" }, ["/colour"]],
    [{ source: "text" }, ["/source"]],
    [sourceConnection({ user: null }), ["/source/postgres/connection/user"]],
  ])("%j", (patch, paths) => {
    expect(refusal(toPostgres, patch)).toEqual({ code: "invalid_request", paths });
  });

  test("a union that may change accepts another kind without null for the old one", () => {
    expect(refusal(toWebhook, { sink: { webhook: { auth: { basic: { username: "u" } } } } }).paths).toEqual([
      "/sink/webhook/auth",
    ]);
    const auth = { bearer: null, basic: { username: "u", password: "p" } };
    expect(patchConnector(toWebhook, { sink: { webhook: { auth } } }).sink.webhook?.auth).toEqual({
      basic: { username: "u", password: "p" },
    });
  });
});
