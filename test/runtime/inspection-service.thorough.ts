// The inspection endpoints on real servers: how long they take, and what they report about servers that do not answer.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer } from "node:net";
import { createApp } from "../../src/app.ts";
import { freePort } from "../../src/demo/free-port.ts";
import { LiveInspectionService } from "../../src/runtime/inspection-service.ts";
import { validateSink } from "../../src/sink/registry.ts";
import { readSourceCatalog, validateSource } from "../../src/source/registry.ts";
import type { State } from "../../src/state/open-state.ts";
import { noAuthentication } from "../api/api-client.ts";
import { memoryServices } from "../api/memory-services.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";

setDefaultTimeout(120_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", synchronous_commit: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const state = { connectors: { get: () => Promise.reject(new Error("no connector is stored")) } };
const password = "planted-s3cret";
const faults: unknown[] = [];

async function post(path: string, connection: object, options: { limitMs?: number } = {}) {
  const context = { state: state as unknown as State, readSourceCatalog, validateSource, validateSink };
  const { limitMs } = options;
  const limits = limitMs === undefined ? undefined : { catalogMs: limitMs, validationMs: limitMs };
  const app = createApp({
    services: { ...memoryServices(), inspection: new LiveInspectionService(context, limits) },
    authentication: noAuthentication,
    acceptsHost: null,
    version: "0.0.0-test",
    reportFault: (fault) => `fault-${faults.push(fault)}`,
  });
  const source = { postgres: { connection, replication_type: { logical_replication: {} } } };
  const begun = performance.now();
  const response = await app.handle(
    new Request(`http://localhost/api/v1/${path}`, {
      method: "POST",
      body: JSON.stringify({ source }),
      headers: { "content-type": "application/json" },
    }),
  );
  const text = await response.text();
  expect(text).not.toContain(password);
  return { status: response.status, body: JSON.parse(text), tookMs: performance.now() - begun };
}

test("ten thousand tables are read and checked within five seconds", async () => {
  // In several transactions, because one holds a lock on each table that it creates.
  await server.query(
    `do $$ begin for i in 1..10000 loop
       execute format('create table t%s (id int primary key, a int, b numeric(10,2), c uuid)', i);
       if i % 500 = 0 then commit; end if;
     end loop; end $$`,
  );
  const connection = { ...server.connection(), ssl_mode: "Disable" };
  const catalog = await post("catalog/source", connection);
  expect(catalog.status).toBe(200);
  expect(catalog.body.schemas[0].tables).toHaveLength(10_000);
  expect(catalog.tookMs).toBeLessThan(5_000);
  const validation = await post("validate/source", connection);
  expect(validation.body.at(-1)).toEqual({ success: {} });
  expect(validation.tookMs).toBeLessThan(5_000);
});

test("a server that accepts and does not answer: 504 for the catalog, an event for the validation", async () => {
  const port = await freePort();
  const silent = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => silent.listen(port, "127.0.0.1", resolve));
  const connection = { ...server.connection(), password, port };
  const [catalog, validation] = await Promise.all([
    post("catalog/source", connection, { limitMs: 1_000 }),
    post("validate/source", connection, { limitMs: 1_000 }),
  ]);
  silent.close();
  expect(catalog).toMatchObject({ status: 504, body: { code: "source_timeout" } });
  expect(validation.status).toBe(200);
  expect(validation.body.at(-1)).toEqual({ failed: { reason: "The server did not answer within 1 s." } });
  for (const { tookMs } of [catalog, validation]) expect(tookMs).toBeLessThan(5_000);
});

test("a validation answers within 10 s, tells what did not answer, and no handshake that there was none of", async () => {
  const port = await freePort();
  const silent = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => silent.listen(port, "127.0.0.1", resolve));
  const { body, tookMs } = await post("validate/source", { ...server.connection(), password, port });
  silent.close();
  expect(tookMs).toBeLessThan(10_000);
  const told = (body as { test?: { test_type: object; status: object } }[]).flatMap(({ test }) =>
    test ? [`${JSON.stringify(test.test_type)} ${Object.keys(test.status)[0]}`] : [],
  );
  expect(told.slice(0, 6)).toEqual([
    '{"Network":{"subtype":"DnsResolution"}} Success',
    '{"Network":{"subtype":"Reachability"}} Success',
    '{"TLS":{}} Skipped',
    '{"Connection":{}} Failed',
    '{"Authentication":{}} Skipped',
    '{"ServerInfo":{"version":"unknown"}} Skipped',
  ]);
  expect(told.length).toBeGreaterThan(10);
});

test("a server that falls silent after the login: also 504", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using locked = await server.connect();
  await locked.query("create table held (id int primary key)");
  await locked.query("begin; lock table pg_class in access exclusive mode");
  const connection = { ...server.connection(), password, port: proxy.port, ssl_mode: "Disable" };
  const catalog = await post("catalog/source", connection, { limitMs: 1_500 });
  expect(catalog).toMatchObject({ status: 504, body: { code: "source_timeout" } });
  await locked.query("rollback");
});

test("an error of the source is 502, and its text repeats nothing of the request", async () => {
  const own = server.connection();
  const cases: [object, string][] = [
    [{ ...own, password, port: 1 }, "source_unreachable"],
    [{ ...own, password, host: "nowhere.invalid" }, "source_unreachable"],
    [{ ...own, password, ssl_mode: "Require" }, "source_unreachable"],
    [{ ...own, password, database: `nowhere ${password}` }, "source_unreachable"],
    [{ ...own, password, user: `nobody ${password}` }, "source_authentication_failed"],
  ];
  for (const [connection, code] of cases) {
    expect(await post("catalog/source", connection)).toMatchObject({ status: 502, body: { code } });
  }
  expect(faults).toEqual([]);
});
