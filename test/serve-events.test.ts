// The stream of events of the service as a process: what comes and how soon, many clients, clients that do not read or go away, and an
// orderly stop.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SampleList } from "../src/connector/service/samples.ts";
import type { ReplicaList, ServiceReport } from "../src/connector/service/service-report.ts";
import { ApiClient } from "../src/demo/api-client.ts";
import { ServiceProcess } from "../src/demo/service-process.ts";
import { EventClient, type ReadEvent } from "./support/api/event-client.ts";
import { sampleRequest } from "./support/api/sample-connector.ts";
import { waitFor } from "./support/wait-for.ts";

const command = [process.execPath, join(import.meta.dir, "..", "src", "main.ts")];
let directory: string;
let service: ServiceProcess;
let api: ApiClient;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
  service = await ServiceProcess.start({
    command,
    environment: {},
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
  api = new ApiClient(service.url);
});

afterEach(async () => {
  await service[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const create = (id: string, more: object = {}) =>
  api.createConnector(id, { ...sampleRequest(), id, ...more });

const isStatus = (phase: string) => (event: ReadEvent) =>
  event.event === "status" && phase in event.data.status.state;

async function refusal(query: string): Promise<[number, unknown]> {
  const response = await fetch(`${service.url}/api/v1/events${query}`);
  return [response.status, ((await response.json()) as { code: unknown }).code];
}

/** A client that sends its request, and never reads what comes. */
async function silentClient(): Promise<Socket> {
  const socket = connect(service.port, "127.0.0.1").on("error", () => {});
  socket.pause();
  socket.write("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return socket;
}

test("a connector's life comes as events, within 100 ms of the command", async () => {
  await using client = await EventClient.connect(service.url);
  expect(client.response.headers.get("content-type")).toBe("text/event-stream");
  await create("orders", { disabled: true });
  const created = await client.until("the connector", ({ event }) => event === "connector");
  expect(created.data).toEqual({ connector_id: "orders", change: "created" });
  await client.until("its status", isStatus("disabled"));
  const { run_id } = await api.connector("orders");
  expect(client.events.at(-1)?.data).toMatchObject({ connector_id: "orders", run_id });

  await api.call("PATCH", "/api/v1/connectors/orders", { disabled: false });
  await client.until("the change", ({ data }) => data.change === "changed");
  // A wait that is built in would be in each round, whatever else the machine is busy with.
  for (let waitedMs = Infinity; waitedMs >= 100; ) {
    const stopped = client.events.length;
    await api.command("orders", "Stop");
    await waitFor("the stop", () => client.events.slice(stopped).some(isStatus("shutdown")));
    const before = client.events.length;
    const fromMs = performance.now();
    await api.command("orders", "Start");
    const started = () => client.events.slice(before).find(isStatus("start"));
    waitedMs = (await waitFor("the start", started)).atMs - fromMs;
  }

  await api.command("orders", "Stop");
  const spec = { Snapshot: { schema: "public", name: "t" } };
  const { id } = await api.call<{ id: string }>("POST", "/api/v1/connectors/orders/tasks", spec);
  const task = await client.until("the task", ({ event }) => event === "task");
  expect(task.data).toMatchObject({ connector_id: "orders", task: { id, state: "Pending" } });
  await api.call("POST", `/api/v1/connectors/orders/tasks/${id}/cancel`);
  await client.until("its end", ({ data }) => data.task?.state === "Cancelled");
  await api.command("orders", "ForceDelete");
  await client.until("the deletion", ({ data }) => data.change === "deleted");
  const ids = client.events.map((event) => Number(event.id.split("-")[1]));
  expect(ids).toEqual(ids.toSorted((a, b) => a - b));
}, 60_000);

test("a client that comes back gets what it missed, and one from another life a reset", async () => {
  let lastId: string;
  {
    await using client = await EventClient.connect(service.url);
    await waitFor("a place to resume from", () => client.lastId !== "");
    lastId = client.lastId;
  }
  await create("orders", { disabled: true });
  await using resumed = await EventClient.connect(service.url, lastId);
  await resumed.until("what was missed", isStatus("disabled"));
  expect(resumed.events[0]?.data).toEqual({ connector_id: "orders", change: "created" });
  for (const id of ["0123456789ab-1", "nonsense", `${lastId}-1`, lastId.replace(/\d+$/, "99")]) {
    await using client = await EventClient.connect(service.url, id);
    await client.until("the reset", ({ event }) => event === "reset");
    expect(client.events).toHaveLength(1);
    expect(client.lastId).toBe(resumed.lastId);
  }
  // Nothing else resumes.
  expect(await refusal(`?lastEventId=${lastId}`)).toEqual([400, "invalid_query"]);
}, 60_000);

test("a hundred clients get each event, the next one is refused, and one that leaves makes room", async () => {
  await using clients = new AsyncDisposableStack();
  const followers = await Promise.all(
    Array.from({ length: 100 }, async () => clients.use(await EventClient.connect(service.url))),
  );
  expect(followers.every(({ response }) => response.ok)).toBe(true);
  expect(await refusal("")).toEqual([503, "too_many_clients"]);
  await create("orders", { disabled: true });
  for (const follower of followers) await follower.until("the status", isStatus("disabled"));
  await followers[0]![Symbol.asyncDispose]();
  await waitFor("room", async () => {
    await using client = await EventClient.connect(service.url);
    return client.response.ok;
  });
}, 60_000);

test("a client that never reads, while a connector restarts on and on, holds nobody up and misses nothing that counts", async () => {
  const silent = await silentClient();
  await using client = await EventClient.connect(service.url);
  await create("orders", { disabled: true });
  const isRest = isStatus("disabled");
  // Each begins a run, which rests at once: two changes.
  for (let n = 0; n < 150; n++) await api.command("orders", "Restart");
  const { run_id } = await api.connector("orders");
  await waitFor("the last change", () =>
    client.events.some((event) => isRest(event) && event.data.run_id === run_id),
  );
  expect(Number(client.lastId.split("-")[1])).toBeGreaterThan(200);
  let text = "";
  silent.on("data", (chunk) => {
    text += chunk.toString();
  });
  silent.resume();
  await waitFor("the last change at who did not read", () => text.includes(`id: ${client.lastId}\n`));
  silent.destroy();
}, 60_000);

test("samples, settings and replicas of a service that runs", async () => {
  await create("orders", { disabled: true });
  const { replicas, this: id } = await api.call<ReplicaList>("GET", "/api/v1/replicas");
  expect(replicas).toMatchObject([{ id, connectors: 0 }]);
  expect(id).toMatch(/-[0-9a-f]{6}$/);
  const report = await api.call<ServiceReport>("GET", "/api/v1/service");
  expect(report.state).toEqual({ kind: "Embedded" });
  expect(report.threads.map(({ thread }) => thread)).toContain("main");
  expect(Math.abs(Date.parse(report.started_at) - Date.now())).toBeLessThan(60_000);
  const port = report.settings.find(({ name }) => name === "MILLRACE_PORT");
  expect(port).toEqual({ name: "MILLRACE_PORT", value: String(service.port), source: "Flag", secret: false });
  const samples = await api.call<SampleList>("GET", "/api/v1/samples?connector_id=orders");
  expect(samples).toEqual({ step_seconds: 5, samples: [] });
  expect((await api.request("GET", "/api/v1/samples?connector_id=none")).status).toBe(404);
}, 60_000);

test("clients that go away at any moment leave nothing behind", async () => {
  for (let round = 0; round < 3; round++) {
    const sockets = await Promise.all(Array.from({ length: 90 }, silentClient));
    const half = sockets.splice(0, 45);
    for (const socket of half) socket.destroy();
    await create("orders", { disabled: round % 2 === 0 });
    for (const socket of sockets) socket.destroy();
  }
  for (let n = 0; n < 100; n++) {
    const head = await fetch(`${service.url}/api/v1/events`, { method: "HEAD" });
    expect(head.status).toBe(200);
  }
  await waitFor("room for a hundred", async () => {
    await using trial = new AsyncDisposableStack();
    const all = await Promise.all(
      Array.from({ length: 100 }, async () => trial.use(await EventClient.connect(service.url))),
    );
    return all.every(({ response }) => response.ok);
  });
}, 60_000);

test("an orderly stop ends the streams, also of a client that does not read, and waits for none", async () => {
  await using owned = new AsyncDisposableStack();
  const clients = await Promise.all(
    Array.from({ length: 30 }, async () => owned.use(await EventClient.connect(service.url))),
  );
  const silent = await silentClient();
  await create("orders");
  for (const client of clients) await client.until("the connector", ({ event }) => event === "connector");
  const fromMs = performance.now();
  expect(await service.stop()).toEqual({ code: 0, signal: null });
  expect(performance.now() - fromMs).toBeLessThan(5_000);
  await waitFor("the end", () => clients.every(({ ended }) => ended !== null));
  expect(clients.filter(({ ended }) => ended !== "in order")).toEqual([]);
  silent.destroy();
}, 60_000);
