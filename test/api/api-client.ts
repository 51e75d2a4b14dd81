// One app with services in memory, and a short way to call it. Every response is searched for the secrets that the
// tests send.

import { expect } from "bun:test";
import type { Fault } from "../../src/api/error-handling.ts";
import type { Authentication } from "../../src/api/guards/authentication.ts";
import type { AcceptsHost } from "../../src/api/guards/host-guard.ts";
import { createApp } from "../../src/app.ts";
import { type MemoryServices, memoryServices } from "./memory-services.ts";

/** Every secret that a test sends contains this. No response may contain it. */
export const planted = "planted-s3cret";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into JSON of any shape.
  readonly body: any;
}

export interface ApiClient {
  readonly services: MemoryServices;
  readonly faults: Fault[];
  readonly handle: (request: Request) => Promise<Answer>;
  readonly call: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Answer>;
}

export const noAuthentication: Authentication = { basic: null, bearer: null };

export function apiClient(
  authentication: Authentication = noAuthentication,
  acceptsHost: AcceptsHost | null = null,
): ApiClient {
  const services = memoryServices();
  const faults: Fault[] = [];
  const app = createApp({
    services,
    authentication,
    acceptsHost,
    version: "0.0.0-test",
    reportFault: (fault) => `fault-${faults.push(fault)}`,
  });

  async function handle(request: Request): Promise<Answer> {
    const response = await app.handle(request);
    const text = await response.text();
    expect(text).not.toContain(planted);
    const isJson = text !== "" && (response.headers.get("content-type")?.includes("json") ?? false);
    const body = isJson ? JSON.parse(text) : undefined;
    if (response.status >= 400) expectProblem(response, body);
    return { status: response.status, headers: response.headers, text, body };
  }

  return {
    services,
    faults,
    handle,
    call: (method, path, body, headers = {}) =>
      handle(
        new Request(`http://localhost${path}`, {
          method,
          ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
          headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
        }),
      ),
  };
}

function expectProblem(response: Response, body: Record<string, unknown>): void {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect([body.type, body.status]).toEqual(["about:blank", response.status]);
  for (const text of [body.title, body.code, body.detail]) expect(text).toBeString();
}

export const connection = (overrides: object = {}) => ({
  host: "db.internal",
  user: "replicator",
  password: `${planted}-password`,
  database: "shop",
  ...overrides,
});

export const source = (overrides: object = {}) => ({
  postgres: { connection: connection(), replication_type: { logical_replication: {} }, ...overrides },
});

export const postgresSink = () => ({ postgres: { connection: connection({ database: "warehouse" }) } });

export const connector = (overrides: object = {}) => ({
  id: "orders",
  source: source(),
  sink: postgresSink(),
  ...overrides,
});
