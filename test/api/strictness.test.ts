import { beforeEach, describe, expect, test } from "bun:test";
import { type ApiClient, apiClient, connector } from "./api-client.ts";

let api: ApiClient;
beforeEach(() => {
  api = apiClient();
});

const path = "/api/v1/connectors";
const jsonPaths: [string, string][] = [
  ["POST", "/api/v1/connectors"],
  ["POST", "/api/v1/connectors/mine"],
  ["PATCH", "/api/v1/connectors/mine"],
  ["POST", "/api/v1/connector/command/mine"],
  ["POST", "/api/v1/catalog/source"],
  ["POST", "/api/v1/validate/source"],
  ["POST", "/api/v1/validate/sink"],
  ["POST", "/api/v1/debug/connector"],
  ["POST", "/api/v1/connectors/mine/tasks"],
];

describe.each(jsonPaths)("%s %s", (method, at) => {
  test("400 for invalid JSON", async () => {
    for (const body of ["", "{", '{"id":', "nonsense", "{'id':1}", "[1,]", "\ufeff\ufeff{}", "NaN"]) {
      const answer = await api.handle(
        new Request(`http://localhost${at}`, {
          method,
          body,
          headers: { "content-type": "application/json" },
        }),
      );
      expect(answer).toMatchObject({ status: 400, body: { code: "malformed_json" } });
    }
  });

  test("422 for JSON of another shape", async () => {
    for (const body of [
      "null",
      "[]",
      "1",
      '"text"',
      "true",
      '{"a":1,"a":2}',
      `{"a":${"[".repeat(99)}${"]".repeat(99)}}`,
    ]) {
      const answer = await api.call(method, at, body);
      expect(answer).toMatchObject({ status: 422, body: { code: "invalid_request" } });
      expect(answer.body.errors.length).toBeGreaterThan(0);
    }
  });

  test("415 for another media type, charset or encoding", async () => {
    const types = [
      { "content-type": "text/plain" },
      { "content-type": "application/x-www-form-urlencoded" },
      { "content-type": "multipart/form-data; boundary=x" },
      { "content-type": "application/json; charset=latin1" },
      { "content-type": "application/xml" },
      { "content-type": "application/json", "content-encoding": "gzip" },
    ];
    for (const headers of types) {
      const answer = await api.call(method, at, "{}", headers);
      expect(answer).toMatchObject({ status: 415, body: { code: "unsupported_media_type" } });
    }
    const bare = await api.handle(
      new Request(`http://localhost${at}`, { method, body: new Uint8Array([123, 125]) }),
    );
    expect(bare.status).toBe(415);
  });

  test("413 above 1 MiB, also without a declared length", async () => {
    const large = `"${"x".repeat(1_048_576)}"`;
    expect(await api.call(method, at, large)).toMatchObject({
      status: 413,
      body: { code: "body_too_large" },
    });
    const chunks = new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < 5; sent++) controller.enqueue(new Uint8Array(300_000).fill(32));
        controller.close();
      },
    });
    const streamed = new Request(`http://localhost${at}`, {
      method,
      body: chunks,
      headers: { "content-type": "application/json" },
    });
    expect((await api.handle(streamed)).status).toBe(413);
  });

  test("400 for invalid UTF-8", async () => {
    const answer = await api.handle(
      new Request(`http://localhost${at}`, {
        method,
        body: new Uint8Array([0x22, 0xff, 0xfe, 0x22]),
        headers: { "content-type": "application/json" },
      }),
    );
    expect(answer).toMatchObject({ status: 400, body: { code: "malformed_json" } });
  });
});

test("an object with methods that a library might call is refused by its path", async () => {
  const body = '{"command":{"toString":1e308},"a/b":[{"valueOf":null}]}';
  const answer = await api.call("POST", "/api/v1/connector/command/mine", body);
  expect(answer.status).toBe(422);
  expect(answer.body.errors).toEqual([
    { path: "/command/toString", message: "unknown key" },
    { path: "/a~1b/0/valueOf", message: "unknown key" },
  ]);
  expect(api.faults).toEqual([]);
});

describe("ambiguous JSON", () => {
  test("a repeated key is named, however it is spelt", async () => {
    const text = JSON.stringify(connector()).replace('"id":"orders"', '"id":"orders","\\u0069d":"other"');
    const answer = await api.call("POST", path, text);
    expect(answer.body.errors).toEqual([{ path: "/id", message: "given more than once" }]);
    const nested = '{"a/b":[{},{"x":{"y":1,"z":2,"y":{}}}]}';
    expect((await api.call("POST", path, nested)).body.errors).toEqual([
      { path: "/a~1b/1/x/y", message: "given more than once" },
    ]);
  });

  test("the same key in different objects, and braces within strings, are not repetitions", async () => {
    const named = connector({ name: '{"id":1,"id":2} [[' });
    expect((await api.call("POST", path, named)).status).toBe(201);
  });

  test("nesting that would exhaust a stack", async () => {
    for (const body of ["[".repeat(500_000), '{"a":'.repeat(100_000), `${"[".repeat(65)}${"]".repeat(65)}`]) {
      const answer = await api.call("POST", path, body);
      expect(answer).toMatchObject({ status: 422, body: { code: "invalid_request" } });
    }
  });

  test("text that Postgres cannot store", async () => {
    for (const name of ["a\\u0000b", "\\ud800"]) {
      const text = JSON.stringify(connector()).replace('"id":"orders"', `"id":"orders","name":"${name}"`);
      expect((await api.call("POST", path, text)).body.errors[0].path).toBe("/name");
    }
  });

  test("keys with a meaning in JavaScript", async () => {
    const text = JSON.stringify(connector()).replace("{", '{"__proto__":{"disabled":true},"constructor":1,');
    const answer = await api.call("POST", path, text);
    expect(answer.status).toBe(422);
    expect(answer.body.errors.map((error: { path: string }) => error.path).sort()).toEqual([
      "/__proto__",
      "/constructor",
    ]);
  });
});

test("exactly 1 MiB is accepted", async () => {
  const frame = JSON.stringify(connector({ name: "" }));
  const padded = frame + " ".repeat(1_048_576 - frame.length);
  expect((await api.call("POST", path, padded)).body.errors[0].path).toBe("/name");
});

test("a byte order mark and a charset are accepted", async () => {
  const headers = { "content-type": 'Application/JSON; charset="UTF-8"' };
  expect((await api.call("POST", path, `\ufeff${JSON.stringify(connector())}`, headers)).status).toBe(201);
});

describe("queries", () => {
  test("unknown, repeated and empty parameters are 400 everywhere", async () => {
    await api.call("POST", "/api/v1/connectors/mine", connector());
    const reads = [
      "/api/v1/connectors",
      "/api/v1/connectors/mine",
      "/api/v1/connectors/mine/tasks",
      "/snapshots",
      ...["events", "samples", "service", "replicas"].map((name) => `/api/v1/${name}`),
    ];
    for (const read of reads) {
      expect(await api.call("GET", `${read}?conector_id=mine`)).toMatchObject({
        status: 400,
        body: { code: "invalid_query", errors: [{ path: "/conector_id" }] },
      });
    }
    const debug = "/api/v1/debug/connector";
    for (const query of [
      "connector_id=mine&connector_id=mine",
      "connector_id=",
      "Connector_id=mine",
      "a[]=1",
    ]) {
      expect((await api.call("POST", `${debug}?${query}`, connector())).status).toBe(400);
    }
    expect((await api.call("POST", `${debug}?connector_id=%zz`, connector())).status).toBe(404);
    expect((await api.call("POST", `${debug}?connector_id=mine`, connector())).status).toBe(200);
    expect((await api.call("DELETE", "/api/v1/connectors/mine?force=1")).status).toBe(400);
    expect((await api.call("GET", "/api/v1/connectors/mine")).status).toBe(200);
  });
});

describe("paths and methods", () => {
  test.each([
    ["PUT", "/api/v1/connectors", "GET, HEAD, POST"],
    ["PUT", "/api/v1/connectors/mine", "DELETE, GET, HEAD, PATCH, POST"],
    ["GET", "/api/v1/connector/command/mine", "POST"],
    ["DELETE", "/api/v1/connectors/mine/tasks/x/cancel", ""],
    ["GET", "/api/v1/validate/sink", "POST"],
    ["POST", "/healthz", "GET, HEAD"],
    ["POST", "/", "GET, HEAD"],
    ["POST", "/swagger", "GET, HEAD"],
    ["OPTIONS", "/api/v1/ssh-keys", "POST"],
  ])("405 for %s %s", async (method, at, allow) => {
    const answer = await api.call(method, at);
    expect(answer).toMatchObject({ status: 405, body: { code: "method_not_allowed" } });
    expect(answer.headers.get("allow")).toBe(allow || "POST");
  });

  test("404 for unknown paths", async () => {
    for (const at of [
      "/api/v1",
      "/api/v2/connectors",
      "/swagger/../etc/passwd",
      "/api/v1/connectors/a/b",
      "/%",
    ]) {
      expect((await api.call("GET", at)).body.code).toBe("not_found");
    }
  });

  test("HEAD answers like GET, without a body", async () => {
    const answer = await api.call("HEAD", "/api/v1/connectors");
    expect([answer.status, answer.text]).toEqual([200, ""]);
  });
});

test("the response to a fault shows only an id, and the log contains the error", async () => {
  await api.call("POST", "/api/v1/connectors/mine", connector());
  const failure = new Error("SELECT * FROM secrets WHERE password = 'hunter2'");
  api.services.catalog = () => Promise.reject(failure);
  const answer = await api.call("POST", "/api/v1/catalog/source", { source: connector().source });
  expect(answer).toMatchObject({ status: 500, body: { code: "internal", id: "fault-1" } });
  expect(answer.text).not.toMatch(/SELECT|hunter2|stack|Error:/);
  expect(api.faults).toEqual([{ method: "POST", path: "/api/v1/catalog/source", error: failure }]);
});

test("a response that violates its schema is a fault, and its values do not reach the log", async () => {
  api.services.catalog = async () => ({ name: 7, hidden: "do-not-log" }) as never;
  const answer = await api.call("POST", "/api/v1/catalog/source", { source: connector().source });
  expect(answer.status).toBe(500);
  expect(String(api.faults[0]?.error)).toContain("/name: expected a string");
  expect(Bun.inspect(api.faults[0]?.error)).not.toContain("do-not-log");
});
