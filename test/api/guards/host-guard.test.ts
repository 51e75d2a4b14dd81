// A page on another machine cannot reach the service by giving it another host name.

import { expect, test } from "bun:test";
import { isLoopbackHost } from "../../../src/loopback.ts";
import { apiClient, noAuthentication } from "../api-client.ts";

const guarded = apiClient(noAuthentication, isLoopbackHost);
const callAs = (host: string, path = "/api/v1/connectors") =>
  guarded.call("GET", path, undefined, host === "" ? {} : { host });

test.each([
  "127.0.0.1:3000",
  "127.0.0.1",
  "127.8.9.10:1",
  "localhost:3000",
  "LocalHost",
  "[::1]:3000",
  "[::1]",
  "",
])("%j is answered", async (host) => {
  expect((await callAs(host)).status).toBe(200);
});

test.each([
  "attacker.example:3000",
  "attacker.example",
  "localhost.attacker.example:3000",
  "127.0.0.1.attacker.example",
  "attacker.example:3000:127.0.0.1",
  "10.0.0.1:3000",
  "0.0.0.0:3000",
  "[::2]:3000",
  "127.0.0.1@attacker.example",
  "127.0.0.1, attacker.example",
])("%j is refused, with the reason", async (host) => {
  for (const path of ["/api/v1/connectors", "/swagger", "/metrics", "/nowhere", "/healthz?x=1"]) {
    const answer = await callAs(host, path);
    expect(answer.status).toBe(401);
    expect(answer.body).toMatchObject({
      code: "unauthorized",
      detail: expect.stringContaining("Host header"),
    });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="millrace"');
  }
});

test("monitoring may use any host name", async () => {
  expect((await callAs("millrace.internal", "/healthz")).status).toBe(200);
});
