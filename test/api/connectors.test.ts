import { beforeEach, describe, expect, test } from "bun:test";
import { usedMs } from "../support/processor-time.ts";
import { testRootCertificate } from "../support/servers/tls-certificates.ts";
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

const passwordOf = (id: string) =>
  api.services.stored.get(id)?.record.connector.source.postgres?.connection.password;
const { password: _, ...withoutPassword } = connection();

describe("POST /api/v1/connectors", () => {
  test("201 with the connector, its status, run and time; the id is generated", async () => {
    const answer = await api.call("POST", "/api/v1/connectors", connector({ id: "" }));
    expect(answer.status).toBe(201);
    expect(Object.keys(answer.body).sort()).toEqual(["connector", "created_at", "run_id", "status"]);
    expect(answer.body.connector.id).toMatch(/^[0-9a-z]{26}$/);
    expect(answer.body.connector.source.postgres.connection).toMatchObject({ password: "***", port: 5432 });
    expect(answer.body.status).toEqual({ state: { start: {} }, status: { start: {} } });
    expect(answer.body.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(answer.headers.get("location")).toBe(`/api/v1/connectors/${answer.body.connector.id}`);
    expect(passwordOf(answer.body.connector.id)).toBe(`${planted}-password`);
  });

  test("the id is required, and ignored", async () => {
    const { id: __, ...withoutId } = connector();
    expect((await api.call("POST", "/api/v1/connectors", withoutId)).body.errors).toEqual([
      { path: "/id", message: "required" },
    ]);
    const answer = await api.call("POST", "/api/v1/connectors", connector({ id: "not a valid id!" }));
    expect(answer.status).toBe(201);
  });

  test("422 for a missing secret, an unbuilt kind, an invalid body", async () => {
    const missing = await api.call(
      "POST",
      "/api/v1/connectors",
      connector({ source: source({ connection: withoutPassword }) }),
    );
    expect(missing).toMatchObject({ status: 422, body: { code: "missing_secret" } });
    expect(missing.body.errors).toEqual([
      { path: "/source/postgres/connection/password", message: "required" },
    ]);
    const unbuilt = await api.call("POST", "/api/v1/connectors", connector({ sink: { snowflake: {} } }));
    expect(unbuilt).toMatchObject({ status: 422, body: { code: "unsupported_kind" } });
    const invalid = await api.call("POST", "/api/v1/connectors", { sink: {}, extra: 1 });
    expect(invalid).toMatchObject({
      status: 422,
      body: { code: "invalid_request", title: "Invalid request" },
    });
    expect(invalid.body.errors.map(({ path }: { path: string }) => path).sort()).toEqual([
      "/extra",
      "/id",
      "/sink",
      "/source",
    ]);
  });
});

describe("POST /api/v1/connectors/{connector_id}", () => {
  test("the id is the path's: the body may leave it out, and another one is ignored; what is no id is refused", async () => {
    const { id: __, ...withoutId } = connector();
    for (const body of [withoutId, connector({ id: "other" })]) {
      expect((await api.call("POST", "/api/v1/connectors/orders", body)).status).toBeOneOf([200, 201]);
    }
    expect((await api.call("GET", "/api/v1/connectors/orders")).body.connector.id).toBe("orders");
    expect((await api.call("GET", "/api/v1/connectors/other")).status).toBe(404);
    const wrong = await api.call("POST", "/api/v1/connectors/orders", connector({ id: 7 as never }));
    expect(wrong.body.errors).toEqual([{ path: "/id", message: expect.stringContaining("string") }]);
    expect((await api.call("POST", "/api/v1/connectors/no id", withoutId)).status).toBe(422);
  });

  test("201 empty when created, 200 empty when replaced; the path's id wins", async () => {
    const created = await api.call("POST", "/api/v1/connectors/mine", connector({ id: "other" }));
    expect([created.status, created.text]).toEqual([201, ""]);
    const replaced = await api.call("POST", "/api/v1/connectors/mine", connector({ name: "New" }));
    expect([replaced.status, replaced.text]).toEqual([200, ""]);
    expect([...api.services.stored.keys()]).toEqual(["mine"]);
    expect((await api.call("GET", "/api/v1/connectors/mine")).body.connector).toMatchObject({
      id: "mine",
      name: "New",
    });
  });

  test("on replace, an omitted required secret is kept, and an omitted optional one is cleared", async () => {
    const cert = `${planted}-cert\n${testRootCertificate}`;
    const withCert = connection({ ssl_root_cert: cert });
    await api.call(
      "POST",
      "/api/v1/connectors/mine",
      connector({ source: source({ connection: withCert }) }),
    );
    const kept = source({ connection: { ...withoutPassword, ssl_root_cert: "***" } });
    expect((await api.call("POST", "/api/v1/connectors/mine", connector({ source: kept }))).status).toBe(200);
    expect(api.services.stored.get("mine")?.record.connector.source.postgres?.connection).toMatchObject({
      password: `${planted}-password`,
      ssl_root_cert: cert,
    });
    const cleared = source({ connection: withoutPassword });
    expect((await api.call("POST", "/api/v1/connectors/mine", connector({ source: cleared }))).status).toBe(
      200,
    );
    const stored = api.services.stored.get("mine")?.record.connector.source.postgres?.connection;
    expect(stored?.password).toBe(`${planted}-password`);
    expect(stored).not.toHaveProperty("ssl_root_cert");
  });

  test("clone_from: omitted secrets come from that connector", async () => {
    await api.call("POST", "/api/v1/connectors/first", connector());
    const clone = connector({ source: source({ connection: withoutPassword }) });
    expect((await api.call("POST", "/api/v1/connectors/second", clone)).body.code).toBe("missing_secret");
    expect((await api.call("POST", "/api/v1/connectors/second?clone_from=first", clone)).status).toBe(201);
    expect(passwordOf("second")).toBe(`${planted}-password`);
    const unknown = await api.call("POST", "/api/v1/connectors/third?clone_from=nobody", clone);
    expect(unknown).toMatchObject({ status: 404, body: { code: "connector_not_found" } });
  });

  test.each(["x".repeat(31), "a%20b", "a%2Fb", "%00", "a%0d%0a", "%F0%9F%92%A5", "..%2f..%2fetc"])(
    "422 for the id %s",
    async (id) => {
      const answer = await api.call("POST", `/api/v1/connectors/${id}`, connector());
      expect(answer).toMatchObject({ status: 422, body: { code: "invalid_request" } });
      expect(answer.body.errors[0].path).toBe("/connector_id");
    },
  );

  test("409 when another connector has the same slot name", async () => {
    await api.call("POST", "/api/v1/connectors/a-b", connector());
    const answer = await api.call("POST", "/api/v1/connectors/A_B", connector());
    expect(answer).toMatchObject({ status: 409, body: { code: "conflict" } });
  });
});

describe("reading", () => {
  test("GET lists all, redacted", async () => {
    expect((await api.call("GET", "/api/v1/connectors")).body).toEqual({ connectors: [] });
    await api.call("POST", "/api/v1/connectors/one", connector());
    await api.call("POST", "/api/v1/connectors/two", connector());
    const answer = await api.call("GET", "/api/v1/connectors");
    expect(answer.status).toBe(200);
    expect(answer.body.connectors.map((item: { connector: { id: string } }) => item.connector.id)).toEqual([
      "one",
      "two",
    ]);
  });

  test("GET one; 404 for a missing or impossible one", async () => {
    await api.call("POST", "/api/v1/connectors/one", connector());
    expect((await api.call("GET", "/api/v1/connectors/one")).status).toBe(200);
    for (const id of ["two", "%00", "x".repeat(500)]) {
      const answer = await api.call("GET", `/api/v1/connectors/${id}`);
      expect(answer).toMatchObject({ status: 404, body: { code: "connector_not_found" } });
    }
    expect((await api.call("GET", "/api/v1/connectors/%zz")).status).toBe(404);
  });

  test("what was read can be sent back unchanged", async () => {
    const sinks = [
      postgresSink(),
      {
        webhook: {
          url: "https://hooks.example.com",
          auth: { bearer: { token: `${planted}-token` } },
          headers: {
            static_: [
              { name: "X-Env", value: "prod" },
              { name: "X-Env-Token", value: planted },
            ],
          },
          signing: { secret: `whsec_${"A".repeat(32)}` },
          format: { supermetal: {} },
        },
      },
    ];
    for (const [index, sink] of sinks.entries()) {
      const path = `/api/v1/connectors/echo-${index}`;
      await api.call("POST", path, connector({ sink, limits: null }));
      const first = await api.call("GET", path);
      const before = structuredClone(api.services.stored.get(`echo-${index}`)?.record.connector);
      expect((await api.call("POST", path, first.body.connector)).status).toBe(200);
      expect((await api.call("PATCH", path, first.body.connector)).status).toBe(200);
      expect(api.services.stored.get(`echo-${index}`)?.record.connector).toEqual(before as never);
      expect((await api.call("GET", path)).body.connector).toEqual(first.body.connector);
    }
  });

  test("a long list takes little time", async () => {
    await api.call("POST", "/api/v1/connectors/one", connector());
    const one = api.services.stored.get("one");
    for (let index = 0; index < 1000 && one; index++) {
      api.services.stored.set(`c${index}`, { ...one, given: { ...one.given, id: `c${index}` } });
    }
    await api.call("GET", "/api/v1/connectors");
    const began = usedMs();
    expect((await api.call("GET", "/api/v1/connectors")).body.connectors).toHaveLength(1001);
    expect(usedMs() - began).toBeLessThan(2_000);
  });
});

describe("PATCH /api/v1/connectors/{connector_id}", () => {
  beforeEach(async () => {
    await api.call("POST", "/api/v1/connectors/mine", connector());
  });

  test("200 with the changed connector, in either media type", async () => {
    const answer = await api.call("PATCH", "/api/v1/connectors/mine", { name: "A" });
    expect(answer).toMatchObject({ status: 200, body: { connector: { id: "mine", name: "A" } } });
    const merge = { "content-type": "application/merge-patch+json" };
    const other = await api.call("PATCH", "/api/v1/connectors/mine", { name: null }, merge);
    expect(other).toMatchObject({ status: 200, body: { connector: { name: null } } });
    const wrong = { "content-type": "application/json-patch+json" };
    expect((await api.call("PATCH", "/api/v1/connectors/mine", [], wrong)).status).toBe(415);
    expect((await api.call("POST", "/api/v1/connectors/mine", connector(), merge)).status).toBe(415);
  });

  test("404, 409 and 422", async () => {
    expect((await api.call("PATCH", "/api/v1/connectors/nobody", {})).body.code).toBe("connector_not_found");
    const moved = { source: { postgres: { connection: { host: "elsewhere" } } } };
    const immutable = await api.call("PATCH", "/api/v1/connectors/mine", moved);
    expect(immutable).toMatchObject({ status: 409, body: { code: "immutable_field" } });
    expect(immutable.body.errors).toEqual([
      { path: "/source/postgres/connection/host", message: "cannot change" },
    ]);
    expect((await api.call("PATCH", "/api/v1/connectors/mine", { nam: 1 })).body.errors).toEqual([
      { path: "/nam", message: "unknown key" },
    ]);
    for (const patch of [[], "text", 1, "null"]) {
      expect(
        (await api.call("PATCH", "/api/v1/connectors/mine", patch === "text" ? '"text"' : patch)).status,
      ).toBe(422);
    }
    expect((await api.call("GET", "/api/v1/connectors/mine")).body.connector.name).toBeNull();
  });
});

describe("commands, history and removal", () => {
  beforeEach(async () => {
    await api.call("POST", "/api/v1/connectors/mine", connector());
  });

  test.each(["Start", "Stop", "Restart", "ReIntialize", "ReInitialize", "Delete", "ForceDelete"])(
    "%s is accepted with 202 and no body",
    async (command) => {
      const answer = await api.call("POST", "/api/v1/connector/command/mine", { command });
      expect([answer.status, answer.text]).toEqual([202, ""]);
    },
  );

  test("unknown commands and connectors", async () => {
    const path = "/api/v1/connector/command/mine";
    expect((await api.call("POST", path, { command: "start" })).body.errors[0].path).toBe("/command");
    expect((await api.call("POST", path, {})).status).toBe(422);
    expect((await api.call("POST", path, { command: "Stop", force: true })).status).toBe(422);
    const unknown = await api.call("POST", "/api/v1/connector/command/nobody", { command: "Stop" });
    expect(unknown).toMatchObject({ status: 404, body: { code: "connector_not_found" } });
  });

  test("DELETE: 204, then 404", async () => {
    const answer = await api.call("DELETE", "/api/v1/connectors/mine");
    expect([answer.status, answer.text]).toEqual([204, ""]);
    expect((await api.call("GET", "/api/v1/connectors/mine")).status).toBe(404);
    expect((await api.call("DELETE", "/api/v1/connectors/mine")).status).toBe(404);
  });

  test("where its tables stand", async () => {
    const answer = await api.call("GET", "/api/v1/connectors/mine/tables");
    expect(answer).toMatchObject({
      status: 200,
      body: { tables: [{ name: "orders", state: "Streaming" }, {}] },
    });
    const unknown = await api.call("GET", "/api/v1/connectors/nobody/tables");
    expect(unknown).toMatchObject({ status: 404, body: { code: "connector_not_found" } });
    expect((await api.call("GET", "/api/v1/connectors/mine/tables?schema=public")).status).toBe(400);
  });

  test("history, oldest first", async () => {
    await api.call("POST", "/api/v1/connector/command/mine", { command: "Restart" });
    const answer = await api.call("GET", "/api/v1/connector/history/mine");
    expect(answer.status).toBe(200);
    expect(answer.body).toHaveLength(2);
    expect(answer.body[0]).toMatchObject({
      connector_id: "mine",
      component: "Connector",
      status: { state: { start: {} }, status: { start: {} } },
    });
    expect(answer.body[0].id < answer.body[1].id).toBe(true);
    expect((await api.call("GET", "/api/v1/connector/history/nobody")).status).toBe(404);
  });
});

describe("conditions", () => {
  const path = "/api/v1/connectors/mine";
  const tag = async () => (await api.call("GET", path)).headers.get("etag") ?? "";
  beforeEach(async () => {
    await api.call("POST", path, connector({ name: "first" }));
  });

  test("the ETag names the configuration, and neither the status nor a secret", async () => {
    const first = await tag();
    expect(first).toMatch(/^"[0-9a-f]{32}"$/);
    await api.call("POST", `/api/v1/connector/command/mine`, { command: "Stop" });
    await api.call("PATCH", path, { source: { postgres: { connection: { password: `${planted}-2` } } } });
    expect(await tag()).toBe(first);
    const patched = await api.call("PATCH", path, { name: "second" });
    expect(patched.headers.get("etag")).toBe(await tag());
    expect(await tag()).not.toBe(first);
    await api.call("PATCH", path, { name: "first" });
    expect(await tag()).toBe(first);
  });

  test("If-None-Match: * creates, and replaces nothing", async () => {
    const only = { "if-none-match": "*" };
    const refused = await api.call("POST", path, connector({ name: "second" }), only);
    expect(refused).toMatchObject({ status: 412, body: { code: "precondition_failed" } });
    expect(refused.body.detail).toContain("Choose another id");
    expect((await api.call("GET", path)).body.connector.name).toBe("first");
    expect((await api.call("POST", "/api/v1/connectors/new", connector(), only)).status).toBe(201);
  });

  test("If-Match changes what was seen, and nothing else", async () => {
    const seen = await tag();
    const change = (method: string, body: object, ifMatch: string) =>
      api.call(method, path, body, { "if-match": ifMatch });
    expect((await change("PATCH", { name: "second" }, seen)).status).toBe(200);
    const late = await change("PATCH", { name: "third" }, seen);
    expect(late).toMatchObject({ status: 412, body: { code: "precondition_failed" } });
    expect(late.body.detail).toContain(await tag());
    expect((await change("POST", connector({ name: "third" }), seen)).status).toBe(412);
    expect((await api.call("GET", path)).body.connector.name).toBe("second");
    expect((await change("POST", connector({ name: "third" }), `"x", ${await tag()}`)).status).toBe(200);
    expect((await change("PATCH", { name: "fourth" }, "*")).status).toBe(200);
  });

  test("If-Match deletes what was seen, and nothing else", async () => {
    const remove = (ifMatch: string) => api.call("DELETE", path, undefined, { "if-match": ifMatch });
    const seen = await tag();
    await api.call("PATCH", path, { name: "second" });
    expect(await remove(seen)).toMatchObject({ status: 412, body: { code: "precondition_failed" } });
    expect((await api.call("GET", path)).body.connector.name).toBe("second");
    expect((await remove(await tag())).status).toBe(204);
    expect((await remove("*")).status).toBe(404);
  });

  test("a proxy may have made the ETag weak, or written its compression into it", async () => {
    for (const form of [(text: string) => `W/${text}`, (text: string) => text.replace(/"$/, '-gzip"')])
      expect((await api.call("PATCH", path, {}, { "if-match": form(await tag()) })).status).toBe(200);
  });

  test("If-Match does not create what is gone", async () => {
    const seen = await tag();
    await api.call("DELETE", path);
    for (const ifMatch of [seen, "*"])
      expect((await api.call("POST", path, connector(), { "if-match": ifMatch })).status).toBe(412);
    expect((await api.call("PATCH", path, {}, { "if-match": seen })).status).toBe(404);
  });

  test.each(["", "abc", '"a" "b"', "*, *"])("422 for the value %p, and nothing is changed", async (value) => {
    for (const name of ["if-match", "if-none-match"]) {
      const refused = await api.call("POST", path, connector({ name: "second" }), { [name]: value });
      expect(refused).toMatchObject({ status: 422, body: { code: "invalid_request" } });
    }
    expect((await api.call("GET", path)).body.connector.name).toBe("first");
  });
});
