import { beforeEach, expect, test } from "bun:test";
import { createPublicKey } from "node:crypto";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import {
  type ApiClient,
  apiClient,
  connection,
  connector,
  planted,
  postgresSink,
  source,
} from "./api-client.ts";

let api: ApiClient;
beforeEach(() => {
  api = apiClient();
});

const { password: _, ...withoutPassword } = connection();
const openSource = source({ connection: withoutPassword });

test("the catalog of a source", async () => {
  const column = { name: "id", primary_key: true, nullable: false, data_type: "bigint", supported: true };
  const table = { name: "orders", action: "Include" as const, history_enabled: false };
  api.services.catalog = async () => ({
    name: "shop",
    default_action: "Exclude",
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: [{ ...table, columns: [{ ...column, action: "Include" }] }],
      },
    ],
  });
  const answer = await api.call("POST", "/api/v1/catalog/source", { source: source() });
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({ name: "shop", default_action: "Exclude" });
  const back = source({ catalog: answer.body });
  expect((await api.call("POST", "/api/v1/connectors", connector({ source: back }))).status).toBe(201);
});

test("connector_id fills missing secrets", async () => {
  await api.call("POST", "/api/v1/connectors/mine", connector());
  for (const path of ["/api/v1/catalog/source", "/api/v1/validate/source"]) {
    expect((await api.call("POST", path, { source: openSource })).body.code).toBe("missing_secret");
    expect((await api.call("POST", `${path}?connector_id=mine`, { source: openSource })).status).toBe(200);
    const unknown = await api.call("POST", `${path}?connector_id=nobody`, { source: openSource });
    expect(unknown).toMatchObject({ status: 404, body: { code: "connector_not_found" } });
  }
  const filled = api.services.inspected.at(-1)?.config;
  expect(filled).toMatchObject({ postgres: { connection: { password: `${planted}-password`, port: 5432 } } });
});

test("errors of the source", async () => {
  for (const [code, status] of [
    ["source_unreachable", 502],
    ["source_timeout", 504],
    ["source_authentication_failed", 502],
  ] as const) {
    api.services.catalog = () => Promise.reject(new MillraceError(code, "The source says no."));
    const answer = await api.call("POST", "/api/v1/catalog/source", { source: source() });
    expect(answer).toMatchObject({ status, body: { code, detail: "The source says no." } });
  }
});

test("validation is 200 whatever it finds", async () => {
  const sink = await api.call("POST", "/api/v1/validate/sink", { sink: postgresSink() });
  expect(sink).toMatchObject({
    status: 200,
    body: [{ start: {} }, { failed: { reason: "The sink cannot be reached." } }],
  });
  const wrong = await api.call("POST", "/api/v1/validate/sink", { sink: { webhook: { url: "nowhere" } } });
  expect(wrong.body.errors.map(({ path }: { path: string }) => path)).toEqual(["/sink/webhook/url"]);
  expect((await api.call("POST", "/api/v1/validate/source", { sink: postgresSink() })).status).toBe(422);
});

test("debug shows every default, redacted, and stores nothing", async () => {
  const answer = await api.call("POST", "/api/v1/debug/connector", connector({ id: "", name: "Shown" }));
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({
    id: "",
    name: "Shown",
    disabled: false,
    source: { postgres: { connection: { password: "***" }, partitions_as_root: false } },
    limits: { cdc: { flush_interval_ms: 0 } },
    identifier_naming: { SourceNaming: {} },
  });
  expect(api.services.stored.size).toBe(0);
  const open = connector({ source: openSource });
  expect((await api.call("POST", "/api/v1/debug/connector", open)).body.code).toBe("missing_secret");
});

test("ssh keys are fresh Ed25519 pairs in OpenSSH form", async () => {
  const [first, second] = [
    await api.call("POST", "/api/v1/ssh-keys"),
    await api.call("POST", "/api/v1/ssh-keys"),
  ];
  expect(first.status).toBe(200);
  expect(first.body.private_key).not.toBe(second.body.private_key);
  expect(first.body.private_key).toMatch(
    /^-----BEGIN OPENSSH PRIVATE KEY-----\n([A-Za-z0-9+/=]{1,70}\n)+-----END OPENSSH PRIVATE KEY-----\n$/,
  );
  const [type, blob = ""] = first.body.public_key.split(" ");
  expect(type).toBe("ssh-ed25519");
  // RFC 8709: the type, then the 32 bytes of the key, each preceded by its length.
  const bytes = Buffer.from(blob, "base64");
  expect(bytes.subarray(0, 19).toString("latin1")).toBe("\0\0\0\x0bssh-ed25519\0\0\0\x20");
  const key = createPublicKey({
    format: "jwk",
    key: { kty: "OKP", crv: "Ed25519", x: bytes.subarray(19).toString("base64url") },
  });
  expect(key.asymmetricKeyType).toBe("ed25519");
});

test("a buffer", async () => {
  const validate = (body: unknown, query = "") => api.call("POST", `/api/v1/validate/buffer${query}`, body);
  const store = { url: "s3://bucket", options: [{ key: "secret_access_key", value: planted }] };
  for (const buffer of [null, {}, { object_store: store }]) {
    expect((await validate({ buffer })).status).toBe(200);
    expect(api.services.inspected.at(-1)).toEqual({ kind: "buffer", config: buffer });
  }
  expect(await validate({ buffer: null }, "?connector_id=nobody")).toMatchObject({ status: 404 });
  const wrong = await validate({ buffer: { object_store: { urll: "s3://bucket", allow_http: "yes" } } });
  expect(wrong).toMatchObject({ status: 422, body: { code: "invalid_request" } });
  expect(wrong.body.errors).toEqual([
    { path: "/buffer/object_store/url", message: "required" },
    { path: "/buffer/object_store/urll", message: "unknown key" },
    { path: "/buffer/object_store/allow_http", message: "expected true or false" },
  ]);
  expect((await validate({})).body.errors).toEqual([{ path: "/buffer", message: "required" }]);
});
