import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { apiClient, connector } from "./api-client.ts";

const api = apiClient();
const { body: document } = await api.call("GET", "/swagger/json");

interface Operation {
  readonly method: string;
  readonly path: string;
  // biome-ignore lint/suspicious/noExplicitAny: the test looks into a JSON document.
  readonly operation: any;
}

const operations: Operation[] = Object.entries(
  document.paths as Record<string, Record<string, object>>,
).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({ method, path, operation })));

describe("the document", () => {
  test("is valid OpenAPI 3.0", async () => {
    const result = await new Validator().validate(document);
    expect(result).toEqual({ valid: true });
    expect(document.openapi).toBe("3.0.3");
  });

  test("has every endpoint", () => {
    expect(operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`).sort()).toEqual(
      [
        "POST /api/v1/connectors",
        "GET /api/v1/connectors",
        "POST /api/v1/connectors/{connector_id}",
        "GET /api/v1/connectors/{connector_id}",
        "PATCH /api/v1/connectors/{connector_id}",
        "DELETE /api/v1/connectors/{connector_id}",
        "POST /api/v1/connector/command/{connector_id}",
        "GET /api/v1/connector/history/{connector_id}",
        "POST /api/v1/catalog/source",
        "POST /api/v1/validate/source",
        "POST /api/v1/validate/buffer",
        "POST /api/v1/validate/sink",
        "POST /api/v1/debug/connector",
        "GET /api/v1/connectors/{connector_id}/tables",
        "GET /api/v1/connectors/{connector_id}/explain",
        "GET /api/v1/connectors/{connector_id}/parked",
        "GET /api/v1/connectors/{connector_id}/parked/{parked_id}",
        "POST /api/v1/connectors/{connector_id}/parked/retry",
        "POST /api/v1/connectors/{connector_id}/parked/discard",
        "POST /api/v1/connectors/{connector_id}/parked/{parked_id}/retry",
        "POST /api/v1/connectors/{connector_id}/parked/{parked_id}/discard",
        "GET /api/v1/connectors/{connector_id}/tasks",
        "POST /api/v1/connectors/{connector_id}/tasks",
        "GET /api/v1/connectors/{connector_id}/tasks/{task_id}",
        "POST /api/v1/connectors/{connector_id}/tasks/{task_id}/cancel",
        "POST /api/v1/connectors/{connector_id}/tasks/{task_id}/retry",
        "POST /api/v1/ssh-keys",
        "GET /api/v1/doctor",
        "GET /api/v1/events",
        "GET /api/v1/samples",
        "GET /api/v1/service",
        "GET /api/v1/replicas",
        "GET /api/v1/session",
        "GET /",
        "GET /snapshots",
        "GET /metrics",
        "GET /healthz",
        "GET /readyz",
      ].sort(),
    );
  });

  test("every operation has a unique id, a summary, a tag, and a schema for each response", () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const tags = document.tags.map(({ name }: { name: string }) => name);
    for (const { operation } of operations) {
      expect(operation.summary).toBeString();
      expect(tags).toContain(operation.tags[0]);
      for (const [status, response] of Object.entries<{ content?: object }>(operation.responses)) {
        const types = Object.keys(response.content ?? {});
        if (Number(status) >= 400) expect(types).toEqual(["application/problem+json"]);
        else expect(types.length).toBeLessThan(2);
      }
    }
  });

  test("describes the authentication when it is enabled", async () => {
    expect(document.security).toEqual([]);
    const guarded = apiClient({ basic: { username: "u", password: "p" }, bearer: { token: "t" } });
    const { body } = await guarded.call("GET", "/swagger/json", undefined, { authorization: "Bearer t" });
    expect(body.security).toEqual([{ basic: [] }, { bearer: [] }]);
    expect(body.paths["/api/v1/connectors"].get.responses).toHaveProperty("401");
    expect(body.paths["/healthz"].get.responses).not.toHaveProperty("401");
    expect(body.paths["/healthz"].get.security).toEqual([]);
  });
});

describe("examples work as they are", () => {
  const examples = operations.flatMap(({ method, path, operation }) =>
    Object.entries<{ examples?: Record<string, { value: unknown }> }>(
      operation.requestBody?.content ?? {},
    ).flatMap(([mediaType, media]) =>
      Object.entries(media.examples ?? {}).map(([name, { value }]) => ({
        method,
        path,
        mediaType,
        name,
        value,
      })),
    ),
  );

  test("every operation with a body has examples", () => {
    const withBody = operations.filter(({ operation }) => operation.requestBody);
    expect(withBody).toHaveLength(12);
    for (const { path } of withBody) expect(examples.some((example) => example.path === path)).toBe(true);
  });

  test.each(
    examples.map((example) => [`${example.method} ${example.path} ${example.name}`, example] as const),
  )("%s", async (_, { method, path, mediaType, value }) => {
    await api.call("POST", "/api/v1/connectors/mine", connector());
    const answer = await api.call(method.toUpperCase(), path.replace("{connector_id}", "mine"), value, {
      "content-type": mediaType,
    });
    expect(answer.status).toBeLessThan(300);
    expect(document.paths[path][method].responses).toHaveProperty(String(answer.status));
  });
});

describe("Swagger UI", () => {
  test("the page loads nothing from other servers", async () => {
    const page = await api.call("GET", "/swagger");
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.text).not.toMatch(/https?:|\/\/[a-z]/);
    const links = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link ?? "");
    expect(links).toHaveLength(4);
    for (const link of links) {
      const file = await api.call("GET", link);
      expect(file.status).toBe(200);
      expect(file.text.length).toBeGreaterThan(100);
    }
  });

  test("its script requests our document, and no public validator", async () => {
    const { text } = await api.call("GET", "/swagger/start.js");
    expect(text).toContain('url: "/swagger/json"');
    expect(text).toContain("validatorUrl: null");
  });
});
