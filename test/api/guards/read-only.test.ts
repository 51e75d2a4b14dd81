// Credentials that may only read: they see everything, and change nothing.

import { describe, expect, test } from "bun:test";
import type { Authentication } from "../../../src/api/guards/authentication.ts";
import { createApp } from "../../../src/app.ts";
import { apiClient, connector } from "../api-client.ts";
import { memoryServices } from "../memory-services.ts";

const basicOf = ({ username, password }: { username: string; password: string }) =>
  `Basic ${btoa(`${username}:${password}`)}`;

const full = { basic: { username: "ops", password: "f" }, bearer: { token: "full" } };
const read = { basic: { username: "eyes", password: "r" }, bearer: { token: "read" } };
const both: Authentication = { ...full, readOnly: read };

async function accessOf(authentication: Authentication, authorization?: string) {
  const headers = authorization === undefined ? {} : { authorization };
  const answer = await apiClient(authentication).call("GET", "/api/v1/session", undefined, headers);
  return answer.status === 200 ? answer.body : answer.status;
}

describe("the session tells what the caller may do", () => {
  test("everything, where nobody is asked for credentials", async () => {
    expect(await accessOf({ basic: null, bearer: null })).toEqual({ access: "Full" });
    expect(await accessOf({ basic: null, bearer: null }, "Bearer any")).toEqual({ access: "Full" });
  });

  const none = { basic: null, bearer: null };
  const parts = [full, { ...full, basic: null }, { ...full, bearer: null }];
  const readParts = [read, { ...read, basic: null }, { ...read, bearer: null }, none];
  test.each(parts.flatMap((part) => readParts.map((readOnly) => ({ ...part, readOnly }))))(
    "for each credential of %j",
    async (authentication) => {
      const { basic, bearer, readOnly } = authentication;
      const answers = await Promise.all([
        accessOf(authentication, basicOf(full.basic)),
        accessOf(authentication, "Bearer full"),
        accessOf(authentication, basicOf(read.basic)),
        accessOf(authentication, "Bearer read"),
      ]);
      expect(answers).toEqual([
        basic ? { access: "Full" } : 401,
        bearer ? { access: "Full" } : 401,
        readOnly.basic ? { access: "Read" } : 401,
        readOnly.bearer ? { access: "Read" } : 401,
      ]);
    },
  );

  test.each([undefined, "Bearer", "Bearer rea", basicOf({ username: "eyes", password: "f" }), "Basic read"])(
    "401 for %j",
    async (authorization) => {
      expect(await accessOf(both, authorization)).toBe(401);
    },
  );

  test("it takes no parameters", async () => {
    expect((await apiClient().call("GET", "/api/v1/session?x=1")).body.code).toBe("invalid_query");
  });
});

test("the challenge and the document name the methods of all credentials", async () => {
  const authentication = { ...full, basic: null, readOnly: { ...read, bearer: null } };
  const api = apiClient(authentication);
  const refused = await api.call("GET", "/snapshots");
  expect(refused.headers.get("www-authenticate")).toBe(
    'Basic realm="millrace", charset="UTF-8", Bearer realm="millrace"',
  );
  const { body } = await api.call("GET", "/swagger/json", undefined, { authorization: basicOf(read.basic) });
  expect(body.security).toEqual([{ basic: [] }, { bearer: [] }]);
});

test.each(["PUT", "POST", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])(
  "%s is 403 at any path, before the request is read, with what it needs",
  async (method) => {
    for (const path of ["/api/v1/connectors", "/nowhere", "/", "/console", "/swagger"]) {
      const answer = await apiClient(both).call(method, path, undefined, { authorization: "Bearer read" });
      expect(answer).toMatchObject({
        status: 403,
        body: { code: "forbidden", detail: expect.stringContaining("may only read") },
      });
    }
  },
);

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly responses: Readonly<Record<string, unknown>>;
}

async function operations(): Promise<Operation[]> {
  const { body } = await apiClient().call("GET", "/swagger/json");
  const paths: Record<string, Record<string, Pick<Operation, "responses">>> = body.paths;
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { responses }]) => ({
      method: method.toUpperCase(),
      path,
      responses,
    })),
  );
}

test("every operation of the document: each GET is answered, each other one is 403 and changes nothing", async () => {
  const services = memoryServices();
  const app = createApp({
    services,
    authentication: both,
    acceptsHost: null,
    version: "0.0.0-test",
    reportFault: (fault) => String(fault.error),
  });
  const send = async (method: string, path: string, token: string, body?: object) => {
    const response = await app.handle(
      new Request(`http://localhost${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      }),
    );
    // An answer may go on for as long as somebody listens.
    await response.body?.cancel();
    return response.status;
  };
  expect(await send("POST", "/api/v1/connectors/mine", "full", connector())).toBe(201);
  const task = { Snapshot: { schema: "public", name: "orders" } };
  expect(await send("POST", "/api/v1/connectors/mine/tasks", "full", task)).toBe(202);
  const [{ id = "" } = {}] = services.stored.get("mine")?.tasks ?? [];
  const state = () => JSON.stringify([[...services.stored], services.inspected]);
  const before = state();

  const all = await operations();
  expect(all.length).toBeGreaterThan(20);
  for (const { method, path } of all) {
    const at = path.replace("{connector_id}", "mine").replace("{task_id}", id);
    const status = await send(method, at, "read", method === "GET" ? undefined : connector());
    if (method === "GET") expect([path, [401, 403].includes(status)]).toEqual([path, false]);
    else expect([method, path, status]).toEqual([method, path, 403]);
    expect(state()).toBe(before);
  }
});

test("the document has 403 where it can come, and nowhere else", async () => {
  // Bodies are rows of the source. The doctor answers no page of another site.
  const isRefused = (path: string) => path.endsWith("/parked/{parked_id}") || path.endsWith("/doctor");
  for (const { method, path, responses } of await operations()) {
    expect([method, path, "403" in responses]).toEqual([method, path, method !== "GET" || isRefused(path)]);
  }
});
