// The service as a process: its output, refusals and shutdown, and an outage of the state store, which must not affect
// anything else.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSettings } from "../src/config.ts";
import { ApiClient } from "../src/demo/api-client.ts";
import { ServiceProcess } from "../src/demo/service-process.ts";
import { createLog } from "../src/log.ts";
import { startService } from "../src/serve.ts";
import { plantedSecret, sampleRequest } from "./support/api/sample-connector.ts";
import { PostgresServer } from "./support/servers/postgres-server.ts";
import { waitFor } from "./support/wait-for.ts";

const command = [process.execPath, join(import.meta.dir, "..", "src", "main.ts")];
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function options(environment: Record<string, string> = {}) {
  return { command, environment, dataDirectory: join(directory, "data"), workingDirectory: directory };
}

async function run(args: readonly string[], environment: Record<string, string> = {}) {
  const env = { PATH: process.env.PATH ?? "", HOME: directory, ...environment };
  const child = Bun.spawn([...command, ...args], { env, cwd: directory, stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output, errors };
}

test("version, help and an unknown command print what they should", async () => {
  expect(await run(["version"])).toMatchObject({
    code: 0,
    output: expect.stringMatching(/^millrace \d+\.\d+\.\d+\n$/),
  });
  const help = await run(["--help"]);
  for (const word of ["serve", "demo", "version", "/swagger", "curl"]) expect(help.output).toContain(word);
  const serve = await run(["serve", "--help"]);
  for (const word of [
    "--host",
    "--port",
    "--data-dir",
    "DATABASE_URL",
    "MILLRACE_ENCRYPTION_KEY",
    "MILLRACE_API_TOKEN",
    "MILLRACE_READ_TOKEN",
    "MILLRACE_ALERT_URL",
    "MILLRACE_ALERT_SECRET",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_METRIC_EXPORT_INTERVAL",
  ]) {
    expect(serve.output).toContain(word);
  }
  expect((await run(["demo", "--help"])).output).toContain("MILLRACE_POSTGRES_BIN");
  const wrong = await run(["sevre"]);
  expect(wrong.code).toBe(1);
  expect(wrong.errors).toContain("serve");
});

test("an invalid setting ends it with one line that says what to do", async () => {
  const open = await run(["serve", "--host", "0.0.0.0"]);
  expect(open.code).toBe(1);
  expect(open.errors).toContain("MILLRACE_API_TOKEN");
  const key = await run(["serve", "--port", "0"], { MILLRACE_ENCRYPTION_KEY: plantedSecret });
  expect(key.code).toBe(1);
  expect(key.errors).toContain("openssl rand -base64 32");
  expect(key.errors + key.output).not.toContain(plantedSecret);
  const alerts = await run(["serve", "--port", "0"], { MILLRACE_ALERT_URL: plantedSecret });
  expect([alerts.code, alerts.errors]).toEqual([1, expect.stringContaining("MILLRACE_ALERT_URL must be")]);
  expect(alerts.errors + alerts.output).not.toContain(plantedSecret);
});

test("it stops in order on SIGTERM, and meanwhile a second one on its state or port is refused", async () => {
  await using service = await ServiceProcess.start(options());
  const second = await run(["serve", "--port", "0", "--data-dir", join(directory, "data")]);
  expect(second.code).toBe(1);
  expect(second.errors).toContain("--data-dir");
  const samePort = await run([
    "serve",
    "--port",
    String(service.port),
    "--data-dir",
    join(directory, "other"),
  ]);
  expect(samePort.code).toBe(1);
  expect(samePort.errors).toContain(String(service.port));
  const from = performance.now();
  expect(await service.stop()).toEqual({ code: 0, signal: null });
  expect(performance.now() - from).toBeLessThan(10_000);
  for (const line of service.log.split("\n")) expect(() => JSON.parse(line)).not.toThrow();
});

test("SIGTERM also stops it while it waits for its database at the start", async () => {
  await using server = await PostgresServer.start();
  await using blocker = await server.connect();
  await blocker.query("begin");
  await blocker.query("create schema millrace");
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const env = { PATH: process.env.PATH ?? "", HOME: directory, DATABASE_URL: url };
  const args = ["serve", "--port", "0", "--data-dir", join(directory, "data")];
  const child = Bun.spawn([...command, ...args], { env, cwd: directory, stdout: "ignore", stderr: "ignore" });
  try {
    await waitFor("the start waits", async () => {
      const waiting = await server.query("select from pg_stat_activity where wait_event_type = 'Lock'");
      return waiting.length > 0;
    });
    child.kill("SIGTERM");
    expect(await Promise.race([child.exited, Bun.sleep(10_000)])).toBe(0);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
});

test("a replica says in /readyz that it stops, while its runs still end", async () => {
  await using server = await PostgresServer.start();
  const DATABASE_URL = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const settings = readSettings({ port: "0", dataDir: join(directory, "data") }, { DATABASE_URL });
  const log = createLog({ level: "silent", readable: false, write: () => {} });
  const [begun, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const ended = Promise.withResolvers<null>();
  const service = await startService(settings, log, "1.2.3", () => {
    begun.resolve();
    const stop = () => asked.resolve();
    const cut = () => ended.resolve(null);
    return { ended: ended.promise, offerTask: () => {}, cancelTask: () => {}, stop, cut };
  });
  await new ApiClient(service.url).createConnector("slow", sampleRequest());
  await begun.promise;
  const stopped = service[Symbol.asyncDispose]();
  await asked.promise;
  const answer = await fetch(`${service.url}/readyz`);
  ended.resolve(null);
  await stopped;
  expect([answer.status, await answer.json()]).toEqual([
    503,
    expect.objectContaining({ detail: "The service is stopping." }),
  ]);
});

test("replicas that take no connectors tell of one that is to run", async () => {
  await using server = await PostgresServer.start();
  const DATABASE_URL = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const environment = { DATABASE_URL, MILLRACE_REPLICA_WEIGHT: "0", MILLRACE_REPLICA_ID: "idle" };
  await using service = await ServiceProcess.start(options(environment));
  await new ApiClient(service.url).createConnector("alone", sampleRequest());
  const metrics = async () => (await fetch(`${service.url}/metrics`)).text();
  const told = '\nmillrace_connector_holder{connector="alone",replica="idle"} 0\n';
  await waitFor("the metric", async () => (await metrics()).includes(told));
  expect(await metrics()).toContain("\nmillrace_ready 1\n");
});

test("without authentication, only requests to a loopback name are accepted", async () => {
  const statusAs = async (service: ServiceProcess, host: string) =>
    (await fetch(`${service.url}/api/v1/connectors`, { headers: { host } })).status;
  {
    await using service = await ServiceProcess.start(options());
    expect(await statusAs(service, `attacker.example:${service.port}`)).toBe(401);
    expect(await statusAs(service, `localhost:${service.port}`)).toBe(200);
  }
  await using open = await ServiceProcess.start(options({ MILLRACE_ALLOW_ANONYMOUS: "1" }));
  expect(await statusAs(open, "millrace.example")).toBe(200);
});

test("with a token set, only requests with that token are accepted", async () => {
  await using service = await ServiceProcess.start(options({ MILLRACE_API_TOKEN: plantedSecret }));
  const path = `${service.url}/api/v1/connectors`;
  expect((await fetch(path)).status).toBe(401);
  const authorization = `Bearer ${plantedSecret}`;
  expect((await fetch(path, { headers: { authorization } })).status).toBe(200);
  expect((await fetch(path, { headers: { authorization, host: "millrace.example" } })).status).toBe(200);
  expect((await fetch(`${service.url}/healthz`)).status).toBe(200);
  expect(service.log).not.toContain(plantedSecret);
});

test("an outage of the state store shows in /readyz, and connectors catch up afterwards", async () => {
  await using server = await PostgresServer.start();
  await using stateServer = await PostgresServer.start();
  await server.createDatabase("shop");
  await server.query("create table items (id int primary key, note text)", "shop");
  const received = new Set<number>();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      for (const row of (await request.json()) as { id: number }[]) received.add(row.id);
      return new Response(null, { status: 204 });
    },
  });
  try {
    const url = `postgres://postgres@127.0.0.1:${stateServer.port}/postgres`;
    await using service = await ServiceProcess.start(options({ DATABASE_URL: url }));
    const api = new ApiClient(service.url);
    await api.createConnector("items", {
      source: {
        postgres: { connection: server.connection("shop"), replication_type: { logical_replication: {} } },
      },
      sink: { webhook: { url: `http://127.0.0.1:${receiver.port}`, path_template: "{schema}/{table}" } },
    });
    await server.query("insert into items values (1, 'before')", "shop");
    await waitFor("the first row", () => received.has(1));
    await stateServer.stop("immediate");
    await waitFor("not ready", async () => (await fetch(`${service.url}/readyz`)).status === 503);
    expect(await (await fetch(`${service.url}/metrics`)).text()).toContain("\nmillrace_ready 0\n");
    await server.query("insert into items values (2, 'meanwhile')", "shop");
    await stateServer.launch();
    await waitFor("ready", async () => (await fetch(`${service.url}/readyz`)).ok);
    await server.query("insert into items values (3, 'after')", "shop");
    await waitFor("every row", () => received.has(2) && received.has(3));
    await api.call("DELETE", "/api/v1/connectors/items");
    expect(await server.query("select slot_name from pg_replication_slots")).toEqual([]);
  } finally {
    await receiver.stop(true);
  }
}, 120_000);
