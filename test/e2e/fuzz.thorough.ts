// Broken requests of every kind to the compiled program, beside connectors that run on a real server: no fault, every answer as
// its OpenAPI document describes it, and no secret in an answer, the log, the metrics, the state or the process's arguments.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { Receiver } from "../../src/demo/receiver.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { brokenRequest, marker, type Operation, operationsOf } from "../support/api/broken-requests.ts";
import { type CheckAnswer, checksAnswers } from "../support/oracles/documented-answers.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../support/servers/tls-certificates.ts";

/** Part of every secret that is sent. */
const planted = "planted-s3cret";
const token = `${planted}-token`;
const runs = Number(process.env.MILLRACE_FUZZ_RUNS ?? 60);

const lines: string[] = [];
let server: PostgresServer;
let receiver: Receiver;
let service: ServiceProcess;
let directory: string;
let operations: Operation[];
let wrongWith: CheckAnswer;

beforeAll(async () => {
  const binary = await compiledBinary();
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "warehouse"]) await server.createDatabase(name);
  await server.query("create table orders (id int primary key, note text)", "shop");
  receiver = Receiver.start();
  directory = await mkdtemp(join(tmpdir(), "millrace-fuzz-"));
  service = await ServiceProcess.start({
    command: [binary],
    environment: { MILLRACE_API_TOKEN: token },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
    onLine: (line) => lines.push(line),
  });
  const { text } = await send("GET", "/swagger/json");
  operations = operationsOf(JSON.parse(text));
  wrongWith = checksAnswers(JSON.parse(text));
}, 120_000);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function send(method: string, target: string, body?: string) {
  const response = await fetch(`${service.url}${target}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body }),
  });
  const contentType = response.headers.get("content-type");
  // A stream of events has no end.
  const isEndless = contentType === "text/event-stream";
  if (isEndless) await response.body?.cancel();
  return { status: response.status, contentType, text: isEndless ? "" : await response.text() };
}

/** The example's servers are these ones, and its passwords are secrets. */
function adapted(example: unknown): unknown {
  return (
    example &&
    JSON.parse(
      JSON.stringify(example)
        .replaceAll('"localhost"', '"127.0.0.1"')
        .replaceAll("5432", String(server.port))
        .replaceAll("http://localhost:8080", receiver.url)
        .replaceAll('"password":"example"', `"password":"${planted}"`),
    )
  );
}

/** With all the secrets that a connector can have beside a password, which is not asked for by the server. */
function connectorWithSecrets(id: string): string {
  const connection = (database: string) => ({
    host: "127.0.0.1",
    port: server.port,
    user: "postgres",
    password: `${planted}-${id}`,
    database,
    ssl_cert: `${planted}-cert\n${testServerCertificate}`,
    ssl_key: `${planted}-key\n${testServerKey}`,
    ssl_root_cert: `${planted}-root\n${testRootCertificate}`,
    ssl_mode: "Disable",
  });
  const note = { name: "note", hash: {}, action: "Include" };
  const orders = { name: "orders", columns: [note], action: "Include" };
  const catalog = {
    schemas: [{ name: "public", tables: [orders] }],
    column_hashing: { algorithm: "Sha256", salt: `${planted}-salt` },
  };
  const replication_type = { logical_replication: {} };
  return JSON.stringify({
    id,
    source: { postgres: { connection: connection("shop"), replication_type, catalog } },
    sink:
      id === "fuzzed"
        ? { postgres: { connection: connection("warehouse") } }
        : {
            webhook: {
              url: receiver.url,
              auth: { bearer: { token: `${planted}-bearer` } },
              headers: { static_: [{ name: "X-Key", value: `${planted}-header` }] },
              signing: { secret: `whsec_${Buffer.from(`${planted}-signing-key`).toString("base64")}` },
            },
          },
  });
}

/** The two connectors as they were, and a task of one of them; returns its id. */
async function restore(): Promise<string> {
  for (const id of ["fuzzed", "events"]) {
    const { status } = await send("POST", `/api/v1/connectors/${id}`, connectorWithSecrets(id));
    expect(status).toBeLessThan(300);
  }
  const task = JSON.stringify({ Snapshot: { schema: "public", name: "orders" } });
  return JSON.parse((await send("POST", "/api/v1/connectors/fuzzed/tasks", task)).text).id;
}

/** Every connector but the two costs threads: what a request has made goes again. */
async function removeOthers(): Promise<void> {
  const { connectors } = JSON.parse((await send("GET", "/api/v1/connectors")).text);
  for (const { connector } of connectors) {
    if (["fuzzed", "events"].includes(connector.id)) continue;
    await send("POST", `/api/v1/connector/command/${connector.id}`, '{"command":"ForceDelete"}');
  }
}

test("broken requests of every operation", async () => {
  for (const operation of operations) {
    const seen = new Set<number>();
    const request = brokenRequest(operation, adapted, await restore());
    await fc.assert(
      fc.asyncProperty(request, async ({ target, body, isRouted }) => {
        const answer = await send(operation.method, target, body);
        expect(answer.text).not.toContain(planted);
        expect(answer.text).not.toContain("whsec_");
        if (answer.status >= 400) expect(answer.text).not.toContain(marker);
        if (!isRouted) return;
        expect(wrongWith(operation, answer)).toBeNull();
        expect([500, 503]).not.toContain(answer.status);
        seen.add(answer.status);
        if (answer.status === 201) await removeOthers();
      }),
      { numRuns: operation.examples.length > 0 ? runs : Math.ceil(runs / 4) },
    );
    expect(seen.size).toBeGreaterThan(0);
  }
}, 600_000);

test("no secret was left anywhere", async () => {
  expect(await readFile(`/proc/${service.pid}/cmdline`, "latin1")).not.toContain(planted);
  expect((await send("GET", "/metrics")).text).not.toContain(planted);
  await service.stop();
  expect(lines.filter((line) => line.includes(planted))).toEqual([]);
  const files = await readdir(directory, { recursive: true, withFileTypes: true });
  const looked = files.filter((file) => file.isFile()).map((file) => join(file.parentPath, file.name));
  expect(looked.length).toBeGreaterThan(100);
  for (const path of looked) {
    const isSecretThere = (await readFile(path)).includes(planted);
    expect(isSecretThere && path).toBe(false);
  }
});
