// A page of another site cannot change anything through a person's browser.

import { describe, expect, test } from "bun:test";
import { apiClient, connector } from "../api-client.ts";

type Headers = Record<string, string>;

const guarded = { basic: { username: "u", password: "p" }, bearer: null };
const authorization = `Basic ${btoa("u:p")}`;

/** The status of a write that would succeed, and how many connectors there are then. */
async function write(headers: Headers): Promise<[number, number]> {
  const api = apiClient(guarded);
  const answer = await api.call("POST", "/api/v1/connectors/mine", connector(), {
    authorization,
    ...headers,
  });
  if (answer.status === 403) {
    expect(answer.body).toMatchObject({ code: "forbidden", detail: expect.stringContaining("another site") });
  }
  return [answer.status, api.services.stored.size];
}

const host = "millrace.example:3000";

describe("let through", () => {
  test.each<[string, Headers]>([
    ["clients that are no browsers: curl, the command line, Terraform", { host }],
    ["the same without a Host", {}],
    ["the console", { host, "sec-fetch-site": "same-origin", origin: `http://${host}` }],
    ["a browser that leaves the Origin out", { host, "sec-fetch-site": "same-origin" }],
    ["what the person did, not a page", { host, "sec-fetch-site": "none" }],
    ["a browser without TLS: the Origin has the Host", { host, origin: `http://${host}` }],
    ["in any case", { host: "Millrace.Example:3000", origin: `http://${host}` }],
    ["by an address", { host: "10.0.0.5:3000", origin: "http://10.0.0.5:3000" }],
    ["by an IPv6 address", { host: "[::1]:3000", origin: "http://[::1]:3000" }],
    ["by an IPv6 address without a port", { host: "[::1]", origin: "http://[::1]" }],
    [
      "a proxy with TLS that keeps the Host",
      { host: "millrace.example", origin: "https://millrace.example" },
    ],
    [
      "a proxy that writes its port into the Host",
      { host: "millrace.example:443", origin: "https://millrace.example" },
    ],
    ["the same without TLS", { host: "millrace.example:80", origin: "http://millrace.example" }],
    [
      "a proxy that changes the Host: Sec-Fetch-Site wins",
      { host: "backend:3000", "sec-fetch-site": "same-origin", origin: "https://millrace.example" },
    ],
    [
      "an Origin that is hidden: Sec-Fetch-Site wins",
      { host, "sec-fetch-site": "same-origin", origin: "null" },
    ],
  ])("%s", async (_, headers) => {
    expect(await write(headers)).toEqual([201, 1]);
  });
});

describe("refused", () => {
  test.each<[string, Headers]>([
    ["another site", { host, "sec-fetch-site": "cross-site", origin: "https://attacker.example" }],
    ["another site that hides its Origin", { host, "sec-fetch-site": "cross-site", origin: "null" }],
    ["another site without an Origin", { host, "sec-fetch-site": "cross-site" }],
    [
      "another site, with an Origin that has the Host",
      { host, "sec-fetch-site": "cross-site", origin: `http://${host}` },
    ],
    ["another name of the same site", { host, "sec-fetch-site": "same-site", origin: "http://blog.example" }],
    ["a word that nobody knows", { host, "sec-fetch-site": "elsewhere" }],
    ["no word", { host, "sec-fetch-site": "" }],
    ["two words", { host, "sec-fetch-site": "same-origin, cross-site" }],
    ["without TLS, another site", { host, origin: "http://attacker.example" }],
    ["without TLS, another port", { host, origin: "http://millrace.example:8080" }],
    ["without TLS, no port", { host, origin: "http://millrace.example" }],
    ["without TLS, a page in a sandbox, or a local file", { host, origin: "null" }],
    ["a name that begins like ours", { host, origin: "http://millrace.example:3000.attacker.example" }],
    ["a user before the host", { host, origin: "http://millrace.example:3000@attacker.example" }],
    ["another scheme", { host, origin: `chrome-extension://${host}` }],
    ["TLS on another port", { host: "millrace.example:80", origin: "https://millrace.example" }],
    ["an Origin, and no Host to compare", { origin: "http://localhost" }],
    ["no Origin to read", { host, origin: "" }],
    [
      "a proxy that changes the Host, and a browser without Sec-Fetch-Site",
      { host: "backend", origin: "https://millrace.example" },
    ],
  ])("%s", async (_, headers) => {
    expect(await write(headers)).toEqual([403, 0]);
  });

  const crossSite = { host, "sec-fetch-site": "cross-site", origin: "https://attacker.example" };

  test("each method that may change something, with and without credentials", async () => {
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      for (const credentials of [{}, { authorization }]) {
        const answer = await apiClient(guarded).call(method, "/api/v1/connectors/mine", undefined, {
          ...crossSite,
          ...credentials,
        });
        expect(answer).toMatchObject({ status: 403, body: { code: "forbidden" } });
      }
    }
  });

  test("on a service that asks nobody for credentials", async () => {
    const api = apiClient();
    expect((await api.call("POST", "/api/v1/connectors/mine", connector(), crossSite)).status).toBe(403);
    expect(api.services.stored.size).toBe(0);
  });
});

test("what changes nothing is answered as ever: a page of another site cannot read it", async () => {
  const from = { authorization, "sec-fetch-site": "cross-site", origin: "https://attacker.example" };
  const api = apiClient(guarded);
  for (const [method, status] of [
    ["GET", 200],
    ["HEAD", 200],
    ["OPTIONS", 405],
  ] as const) {
    const answer = await api.call(method, "/api/v1/connectors", undefined, from);
    expect(answer.status).toBe(status);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  }
});

test("the doctor, which asks sources and sinks, answers no page of another site", async () => {
  const api = apiClient();
  const from = (site: string) => api.call("GET", "/api/v1/doctor", undefined, { "sec-fetch-site": site });
  for (const site of ["cross-site", "same-site"])
    expect(await from(site)).toMatchObject({ status: 403, body: { code: "forbidden" } });
  for (const site of ["same-origin", "none"]) expect((await from(site)).status).toBe(200);
  expect((await api.call("GET", "/api/v1/doctor")).status).toBe(200);
});
