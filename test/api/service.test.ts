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

test("the root tells what this is, and where the rest is", async () => {
  const api = apiClient();
  const about = await api.call("GET", "/");
  expect([about.status, about.headers.get("vary")]).toEqual([200, "accept"]);
  expect(about.body).toMatchObject({ name: "millrace", version: "0.0.0-test" });
  const { links } = about.body;
  expect(Object.keys(links)).toEqual(["api", "documentation", "openapi", "health", "readiness", "metrics"]);
  for (const link of Object.values<string>(links)) expect((await api.call("GET", link)).status).toBe(200);
});

test("the root is behind the guards", async () => {
  const guarded = apiClient({ basic: { username: "u", password: "p" }, bearer: null });
  const answer = await guarded.call("GET", "/");
  expect([answer.status, answer.headers.has("www-authenticate")]).toEqual([401, true]);
  const here = apiClient(undefined, (host) => host === "localhost");
  expect((await here.call("GET", "/", undefined, { host: "attacker.example" })).status).toBe(401);
  expect((await here.call("GET", "/?x=1")).body.code).toBe("invalid_query");
});
