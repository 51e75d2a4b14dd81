import { beforeEach, expect, test } from "bun:test";
import { type ApiClient, apiClient, connector } from "./api-client.ts";

let api: ApiClient;
beforeEach(() => {
  api = apiClient();
});

test("samples of one connector, or of all", async () => {
  for (const id of ["orders", "events"])
    await api.call("POST", `/api/v1/connectors/${id}`, connector({ id }));
  const all = await api.call("GET", "/api/v1/samples");
  expect(all).toMatchObject({ status: 200, body: { step_seconds: 5 } });
  expect(all.body.samples.map((samples: { connector_id: string }) => samples.connector_id)).toHaveLength(2);
  const one = await api.call("GET", "/api/v1/samples?connector_id=orders&since=2026-01-31T10:00:00.000Z");
  expect(one.body.samples).toMatchObject([{ connector_id: "orders", rows_in: [1, null] }]);
  for (const id of ["none", "%00", "x".repeat(31)]) {
    const unknown = await api.call("GET", `/api/v1/samples?connector_id=${id}`);
    expect([unknown.status, unknown.body.code]).toEqual([404, "connector_not_found"]);
  }
});

test("a time that there is not is refused", async () => {
  const times = ["", "now", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00+01:00", "1700000000"];
  for (const since of times) {
    const answer = await api.call("GET", `/api/v1/samples?since=${encodeURIComponent(since)}`);
    expect(answer).toMatchObject({
      status: 400,
      body: { code: "invalid_query", errors: [{ path: "/since" }] },
    });
  }
  expect((await api.call("GET", "/api/v1/samples?since=2026-01-01T00:00:00Z")).status).toBe(200);
});

test("the service and its replicas", async () => {
  const service = await api.call("GET", "/api/v1/service");
  expect(service).toMatchObject({ status: 200, body: { state: { kind: "Embedded" } } });
  const replicas = await api.call("GET", "/api/v1/replicas");
  expect(replicas.body.replicas.map(({ id }: { id: string }) => id)).toEqual([replicas.body.this]);
});

test("events are a stream, which ends when the service says so, and HEAD opens none", async () => {
  const answer = await api.call("GET", "/api/v1/events");
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  const data = '{"connector_id":"orders","change":"created"}';
  expect(answer.text).toBe(`retry: 1000\nid: memory-0\n\nid: memory-1\nevent: connector\ndata: ${data}\n\n`);
  const resumed = await api.call("GET", "/api/v1/events", undefined, { "last-event-id": "memory-0" });
  expect(resumed.text).toStartWith("retry: 1000\n\nid: memory-1\n");
  api.services.events.follow = () => {
    throw new Error("a stream was opened");
  };
  expect((await api.call("HEAD", "/api/v1/events")).status).toBe(200);
});

test("all of it asks for credentials where the service does", async () => {
  const guarded = apiClient({ basic: null, bearer: { token: "t" } });
  for (const name of ["events", "samples", "service", "replicas"])
    expect((await guarded.call("GET", `/api/v1/${name}`)).status).toBe(401);
});
