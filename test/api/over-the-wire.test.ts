// Raw requests to a real server, for what a fetch client cannot send.

import { afterAll, describe, expect, test } from "bun:test";
import { createApp } from "../../src/app.ts";
import { listen } from "../../src/listen.ts";
import { noAuthentication } from "./api-client.ts";
import { memoryServices } from "./memory-services.ts";

const faults: unknown[] = [];

async function startServer(authentication: Parameters<typeof createApp>[0]["authentication"]) {
  const app = createApp({
    acceptsHost: null,
    services: memoryServices(),
    authentication,
    version: "0.0.0-test",
    reportFault: (fault) => `fault-${faults.push(fault)}`,
  });
  // As the service does: the routes are then Bun's own.
  return await listen(app, { port: 0, host: "127.0.0.1" });
}

const open = await startServer(noAuthentication);
const guarded = await startServer({ basic: null, bearer: { token: "t0ken" } });
afterAll(async () => {
  await Promise.all([open.stop(true), guarded.stop(true)]);
});

/** The status and the complete text of the response to a raw request. The server closes the connection after it. */
async function send(
  server: Awaited<ReturnType<typeof startServer>>,
  request: string,
): Promise<{ status: number; text: string }> {
  const answer = Promise.withResolvers<string>();
  let text = "";
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: server.port ?? 0,
    socket: {
      data: (_, chunk) => {
        text += chunk.toString();
      },
      close: () => answer.resolve(text),
      error: (_, error) => answer.reject(error),
    },
  });
  socket.write(Buffer.from(request, "latin1"));
  const whole = await answer.promise;
  return { status: Number(whole.split(" ")[1]), text: whole };
}

const get = (target: string, host: string) =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

describe("hosts and targets", () => {
  test("hosts of any length", async () => {
    for (const host of ["x", "api", "api:80", "localhost:3000", "[::1]:3000"]) {
      expect((await send(open, get("/api/v1/connectors", host))).status).toBe(200);
    }
  });

  test("health without a host, as HTTP/1.0 allows", async () => {
    expect((await send(guarded, "GET /healthz HTTP/1.0\r\n\r\n")).status).toBe(200);
  });

  test("an invalid URL never causes a fault", async () => {
    for (const request of [
      get("/api/v1/connectors", "a b"),
      get("/api/v1/connectors", ":::::"),
      get("/api/v1/connectors/x", "[::1"),
      get("//evil/%00?x", "x"),
      get("/\\..\\x", "x"),
      get("/api/v1/connectors/\xff\xfe", "x"),
      get("http://[/api/v1", "x"),
    ]) {
      const answer = await send(open, request);
      expect([200, 404]).toContain(answer.status);
      if (answer.status === 404) expect(answer.text).toContain("application/problem+json");
    }
    expect(faults).toEqual([]);
  });

  test("no spelling of a URL bypasses authentication", async () => {
    for (const [target, host] of [
      ["/api/v1/connectors", "x/healthz?"],
      ["/api/v1/connectors", "localhost/healthz?"],
      ["http://x/healthz?/api/v1/connectors", "x"],
      ["http://localhost/healthz#/api/v1/connectors", "localhost"],
      ["/healthz/../api/v1/connectors", "localhost"],
      ["/healthz?/api/v1/connectors", "localhost"],
      ["/healthz;/api/v1/connectors", "localhost"],
      ["//healthz", "localhost"],
      ["/api/v1/connectors?/healthz", "localhost"],
    ] as const) {
      expect((await send(guarded, get(target, host))).status).toBe(401);
    }
  });
});

test("an oversized body", async () => {
  const response = await fetch(`${open.url}api/v1/connectors`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "x".repeat(3_000_000),
  });
  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ code: "body_too_large" });
});

test("a body far beyond what Bun takes by itself is refused in the same way, before it has come", async () => {
  const answer = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: open.port ?? 0,
    socket: {
      data: (_, chunk) => answer.resolve(chunk.toString()),
      close: () => answer.resolve(""),
    },
  });
  const type = "Content-Type: application/json";
  socket.write(
    `POST /api/v1/connectors HTTP/1.1\r\nHost: x\r\n${type}\r\nContent-Length: 200000000\r\n\r\n{`,
  );
  const text = await answer.promise;
  socket.terminate();
  expect(text).toStartWith("HTTP/1.1 413 ");
  expect(text).toContain("application/problem+json");
});
