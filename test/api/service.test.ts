import { expect, test } from "bun:test";
import { apiClient } from "./api-client.ts";

test("health, readiness, snapshots, metrics", async () => {
  const api = apiClient();
  expect(await api.call("GET", "/healthz")).toMatchObject({ status: 200, body: { status: "ok" } });
  expect(await api.call("GET", "/readyz")).toMatchObject({ status: 200, body: { status: "ok" } });
  expect((await api.call("GET", "/snapshots")).body).toEqual({ active: false, count: 0, throttled: false });
  const metrics = await api.call("GET", "/metrics");
  expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(metrics.text).toContain("millrace_up 1\n");
});

test("503 with the reason while the service is not ready", async () => {
  const api = apiClient();
  api.services.readiness = { ready: false, reason: "The state store does not answer." };
  expect(await api.call("GET", "/readyz")).toMatchObject({
    status: 503,
    body: { code: "state_unavailable", detail: "The state store does not answer." },
  });
  expect((await api.call("GET", "/healthz")).status).toBe(200);
});
