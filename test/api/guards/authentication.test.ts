import { describe, expect, test } from "bun:test";
import { apiClient } from "../api-client.ts";

const basic = { username: "ops", password: "s3cret:with:colons ü" };
const bearer = { token: "t0ken" };
const basicHeader = (pair: string) => `Basic ${Buffer.from(pair, "utf8").toString("base64")}`;
const goodBasic = basicHeader(`${basic.username}:${basic.password}`);

async function statusOf(
  authentication: Parameters<typeof apiClient>[0],
  authorization?: string,
  path = "/snapshots",
) {
  const headers = authorization === undefined ? {} : { authorization };
  return (await apiClient(authentication).call("GET", path, undefined, headers)).status;
}

test("off: everyone may call", async () => {
  expect(await statusOf({ basic: null, bearer: null })).toBe(200);
});

describe("on", () => {
  const both = { basic, bearer };

  test("the right credentials, with the scheme in any case", async () => {
    expect(await statusOf(both, goodBasic)).toBe(200);
    expect(await statusOf(both, goodBasic.replace("Basic", "bASIC"))).toBe(200);
    expect(await statusOf(both, "Bearer t0ken")).toBe(200);
    expect(await statusOf(both, "bearer  t0ken ")).toBe(200);
  });

  test.each([
    undefined,
    "",
    "Basic",
    "Bearer",
    "Bearer ",
    "Bearer t0ken2",
    "Bearer t0ke",
    "t0ken",
    basicHeader("ops:wrong"),
    basicHeader("ops"),
    basicHeader(":"),
    basicHeader("t0ken"),
    `Bearer ${Buffer.from(`${basic.username}:${basic.password}`).toString("base64")}`,
    "Basic t0ken",
    "Digest t0ken",
    `Basic ${"A".repeat(100_000)}`,
  ])("401 for %j", async (authorization) => {
    expect(await statusOf(both, authorization)).toBe(401);
  });

  test("a disabled method accepts nothing", async () => {
    expect(await statusOf({ basic, bearer: null }, "Bearer t0ken")).toBe(401);
    expect(await statusOf({ basic: null, bearer }, goodBasic)).toBe(401);
    expect(await statusOf({ basic, bearer: null }, "Bearer ")).toBe(401);
  });

  test("401 says how to authenticate, as problem+json, before the request is read", async () => {
    for (const [method, path] of [
      ["GET", "/api/v1/connectors"],
      ["POST", "/api/v1/connectors"],
      ["GET", "/nowhere"],
      ["PUT", "/api/v1/connectors"],
      ["GET", "/swagger"],
      ["GET", "/metrics"],
      ["GET", "/healthz/x"],
    ] as const) {
      const answer = await apiClient(both).call(method, path);
      expect(answer).toMatchObject({ status: 401, body: { code: "unauthorized" } });
      expect(answer.headers.get("www-authenticate")).toBe(
        'Basic realm="millrace", charset="UTF-8", Bearer realm="millrace"',
      );
    }
  });

  test("health and readiness need no credentials", async () => {
    expect(await statusOf(both, undefined, "/healthz")).toBe(200);
    expect(await statusOf(both, undefined, "/readyz")).toBe(200);
  });
});
