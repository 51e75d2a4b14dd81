// Each endpoint of the compiled program once, on real Postgres servers, by the typed client that its users have.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { treaty } from "@elysiajs/eden";
import type { App } from "../../src/app.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const planted = "planted-p4ssword";
const token = "planted-token-e0";
let server: PostgresServer;
let service: ServiceProcess;
let directory: string;

beforeAll(async () => {
  const binary = await compiledBinary();
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "copy"]) await server.createDatabase(name);
  await server.query(
    "create table orders (id int primary key, note text); insert into orders values (1, 'a')",
    "shop",
  );
  directory = await mkdtemp(join(tmpdir(), "millrace-endpoints-"));
  service = await ServiceProcess.start({
    command: [binary],
    environment: { MILLRACE_API_TOKEN: token },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
}, 120_000);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const client = () =>
  treaty<App>(service.url, { headers: { authorization: `Bearer ${token}` }, parseDate: false });

/** What a call has come to; no answer may hold a secret. */
function seen<Answer extends { status: number; data: unknown; error: unknown }>(answer: Answer): Answer {
  expect(JSON.stringify([answer.data, answer.error])).not.toContain("planted");
  return answer;
}

function connection(database: string) {
  return { host: "127.0.0.1", port: server.port, user: "postgres", password: planted, database };
}

const source = () => ({
  postgres: { connection: connection("shop"), replication_type: { logical_replication: {} } },
});
const sink = () => ({ postgres: { connection: connection("copy") } });

test("a connector's life, from its making to its end", async () => {
  const { v1 } = client().api;
  const request = { id: "life", source: source(), sink: sink() };
  const life = v1.connectors({ connector_id: "life" });
  const previewed = seen(await v1.debug.connector.post(request));
  expect(previewed).toMatchObject({ status: 200, data: { id: "life", buffer: null, disabled: false } });
  expect(seen(await life.get())).toMatchObject({
    status: 404,
    error: { value: { code: "connector_not_found" } },
  });
  expect(seen(await life.post(request)).status).toBe(201);
  expect(seen(await life.post(request)).status).toBe(200);
  const copied = async () => (await server.query("select from orders", "copy").catch(() => [])).length === 1;
  await waitFor("the copy", copied);
  const phase = async (name: string, of: { get: typeof life.get } = life) =>
    name in ((await of.get()).data?.status.state ?? {});
  await waitFor("the stream", () => phase("realtime"));
  const rows = async () => (await life.get()).data?.status.progress?.snapshot.rows;
  await waitFor("the count of rows", async () => (await rows()) === 1);
  const tables = async () => seen(await life.tables.get()).data?.tables;
  await waitFor("the table", async () => (await tables())?.[0]?.state === "Streaming");
  expect(await tables()).toEqual([
    { schema: "public", name: "orders", state: "Streaming", rows_in: 0, history: false },
  ]);
  const { data } = seen(await life.get());
  expect(data?.connector.source.postgres?.connection.password).toBe("***");
  expect(data?.status.progress?.snapshot).toMatchObject({ tables: 1, tables_done: 1, rows: 1 });

  const patched = seen(await life.patch({ name: "Orders" }));
  expect(patched).toMatchObject({ status: 200, data: { connector: { name: "Orders" } } });
  expect(patched.data?.run_id).not.toBe(data?.run_id);
  const moved = seen(await life.patch({ source: { postgres: { connection: { host: "elsewhere" } } } }));
  expect(moved).toMatchObject({ status: 409, error: { value: { code: "immutable_field" } } });

  const command = v1.connector.command({ connector_id: "life" });
  for (const name of ["Stop", "Start", "Restart", "ReIntialize"] as const) {
    expect(seen(await command.post({ command: name })).status).toBe(202);
    await waitFor(name, () => phase(name === "Stop" ? "shutdown" : "realtime"));
  }
  const history = seen(await v1.connector.history({ connector_id: "life" }).get());
  expect(history.data?.map(({ connector_id }) => connector_id)).toContain("life");
  expect(history.data?.[0]?.status.state).toEqual({ start: {} });

  const other = seen(await v1.connectors.post({ ...request, id: "", disabled: true }));
  expect(other.status).toBe(201);
  const { id } = other.data!.connector;
  const listed = seen(await v1.connectors.get());
  expect(listed.data?.connectors.map(({ connector }) => connector.id).sort()).toEqual([id, "life"].sort());
  await waitFor("the other to rest", () => phase("disabled", v1.connectors({ connector_id: id })));
  const gone = v1.connector.command({ connector_id: id });
  expect(seen(await gone.post({ command: "ForceDelete" })).status).toBe(202);
  expect(seen(await v1.connectors({ connector_id: id }).get()).status).toBe(404);

  expect(seen(await life.delete()).status).toBe(204);
  expect(seen(await life.get()).status).toBe(404);
  expect(await server.query("select from pg_replication_slots")).toEqual([]);
  expect(await server.query("select from pg_publication", "shop")).toEqual([]);
});

test("what happens, what was measured, and the service itself", async () => {
  const { v1 } = client().api;
  const events = await fetch(`${service.url}/api/v1/events`, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(events.headers.get("content-type")).toBe("text/event-stream");
  const reader = events.body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toStartWith("retry: 1000\nid: ");
  await reader.cancel();
  expect(seen(await v1.samples.get({ query: {} }))).toMatchObject({ status: 200, data: { step_seconds: 5 } });
  expect(seen(await v1.samples.get({ query: { connector_id: "none" } })).status).toBe(404);
  const { data } = seen(await v1.service.get());
  const secret = data?.settings.find(({ name }) => name === "MILLRACE_API_TOKEN");
  expect(secret).toEqual({ name: "MILLRACE_API_TOKEN", value: "***", source: "Environment", secret: true });
  const replicas = seen(await v1.replicas.get());
  expect(replicas.data?.replicas.map(({ id }) => id)).toEqual([replicas.data?.this ?? ""]);
});

test("tasks of a connector", async () => {
  const { v1 } = client().api;
  const connector = v1.connectors({ connector_id: "tasks" });
  await connector.post({ id: "tasks", source: source(), sink: sink(), disabled: true });
  const spec = { Snapshot: { schema: "public", name: "orders" } };
  const made = seen(await connector.tasks.post(spec));
  expect(made).toMatchObject({
    status: 202,
    data: { state: "Pending", spec: { Snapshot: { database: "shop" } } },
  });
  expect(seen(await connector.tasks.post(spec)).data?.id).toBe(made.data!.id);
  const task = connector.tasks({ task_id: made.data!.id });
  expect(seen(await task.get())).toMatchObject({ status: 200, data: { id: made.data!.id } });
  expect(seen(await task.retry.post()).status).toBe(200);
  expect(seen(await task.cancel.post())).toMatchObject({ status: 200, data: { state: "Cancelled" } });
  expect(seen(await task.cancel.post()).status).toBe(200);
  expect(seen(await task.retry.post()).status).toBe(409);
  expect(seen(await connector.tasks.get()).data).toHaveLength(1);
  const unknown = connector.tasks({ task_id: "01a20593-6296-769f-bd72-783bcd281407" });
  expect(seen(await unknown.get())).toMatchObject({
    status: 404,
    error: { value: { code: "task_not_found" } },
  });
  expect(seen(await connector.delete()).status).toBe(204);
});

test("what is parked of a connector", async () => {
  const { v1 } = client().api;
  const connector = v1.connectors({ connector_id: "parking" });
  await connector.post({ id: "parking", source: source(), sink: sink(), disabled: true });
  expect(seen(await connector.parked.get({ query: { limit: "10" } })).data).toEqual({
    parked: [],
    next: null,
    total: 0,
    asked: 0,
    as_of: expect.any(String),
  });
  expect(seen(await connector.parked.retry.post({})).data).toEqual({ count: 0 });
  const selection = { schema: "public", before: "2026-01-31T12:00:00+01:00" };
  expect(seen(await connector.parked.discard.post(selection)).data).toEqual({ count: 0 });
  expect(seen(await connector.parked.discard.post({ before: "yesterday" })).status).toBe(422);
  const unknown = connector.parked({ parked_id: "01a20593-6296-769f-bd72-783bcd281407" });
  for (const answer of [
    seen(await unknown.get({ query: { body: "1" } })),
    seen(await unknown.retry.post()),
    seen(await unknown.discard.post()),
  ])
    expect(answer).toMatchObject({ status: 404, error: { value: { code: "parked_not_found" } } });
  expect(seen(await connector.delete()).status).toBe(204);
});

test("what became of a row", async () => {
  const { v1 } = client().api;
  const connector = v1.connectors({ connector_id: "explained" });
  const webhook = { webhook: { url: "http://127.0.0.1:9" } };
  await connector.post({ id: "explained", source: source(), sink: webhook, disabled: true });
  const query = { schema: "public", table: "orders", key: '{"id":7}' };
  expect(seen(await connector.explain.get({ query })).data).toMatchObject({ state: "Unknown", open: null });
  expect(seen(await connector.explain.get({ query: { ...query, key: "[7]" } })).status).toBe(422);
  expect(seen(await connector.delete()).status).toBe(204);
});

test("sources and sinks are looked at, and nothing is stored", async () => {
  const { v1 } = client().api;
  const catalog = seen(await v1.catalog.source.post({ source: source() }));
  expect(catalog.data?.schemas[0]?.tables[0]).toMatchObject({
    name: "orders",
    columns: [{ name: "id" }, { name: "note" }],
  });
  for (const events of [
    seen(await v1.validate.source.post({ source: source() })).data,
    seen(await v1.validate.sink.post({ sink: sink() })).data,
    seen(await v1.validate.buffer.post({ buffer: null })).data,
  ]) {
    expect(events?.at(0)).toEqual({ start: {} });
    expect(events?.at(-1)).toEqual({ success: {} });
  }
  const nowhere = { ...source().postgres, connection: { ...connection("shop"), port: 1 } };
  const unreachable = seen(await v1.catalog.source.post({ source: { postgres: nowhere } }));
  expect(unreachable).toMatchObject({ status: 502, error: { value: { code: "source_unreachable" } } });
  const keys = await v1["ssh-keys"].post();
  expect(keys.data?.public_key).toStartWith("ssh-ed25519 ");
  expect(keys.data?.private_key).toStartWith("-----BEGIN OPENSSH PRIVATE KEY-----");
  expect(seen(await v1.connectors.get()).data?.connectors).toEqual([]);
});

test("the service about itself", async () => {
  const { healthz, readyz, snapshots, metrics } = client();
  expect((await healthz.get()).data).toEqual({ status: "ok" });
  expect((await readyz.get()).data).toEqual({ status: "ok" });
  expect((await snapshots.get()).data).toEqual({ active: false, count: 0, throttled: false });
  expect((await metrics.get()).data).toContain("process_resident_memory_bytes");
  expect((await treaty<App>(service.url).snapshots.get()).status).toBe(401);
  expect((await treaty<App>(service.url).healthz.get()).status).toBe(200);
  for (const path of ["/swagger", "/swagger/json"]) {
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${service.url}${path}`, { headers })).status).toBe(200);
  }
  expect(service.log).not.toContain("planted");
});
