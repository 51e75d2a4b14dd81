// What became of a row, asked of a service as a process, with a real source and a receiver: delivered, tried again, waiting, parked, sent
// again, discarded, refused, after a kill -9, and where nothing is known.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Explanation } from "../../src/connector/explanation.ts";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(120_000);

const command = [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")];
let directory: string;
let server: PostgresServer;
let receiver: WebhookReceiver;
let service: ServiceProcess;
let api: ApiClient;

const tables = `create table t (id bigint primary key, v text);
  create table kinds (a numeric(10,2), b timestamptz, c bytea, d uuid, e boolean, v int, primary key (a, b, c, d, e));
  create table hashed (mail text primary key, v int); create table keyless (v int); create table aside (id int primary key);
  create table by_index (id int primary key, code int not null unique, v text); alter table by_index replica identity using index by_index_code_key`;

async function startService(): Promise<void> {
  const options = { command, environment: {}, workingDirectory: directory };
  service = await ServiceProcess.start({ ...options, dataDirectory: join(directory, "data") });
  api = new ApiClient(service.url);
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
  [server, receiver] = await Promise.all([
    PostgresServer.start({ settings: { fsync: "off" } }),
    WebhookReceiver.start(),
  ]);
  await server.createDatabase("shop");
  await server.query(tables, "shop");
  await startService();
});

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const sql = (text: string) => server.query(text, "shop");
const connection = () => server.connection("shop");
const patch = (id: string, change: object) => api.call("PATCH", `/api/v1/connectors/${id}`, change);

async function create(
  id: string,
  webhook: object = {},
  limits: object = { receipts_hours: 24 },
): Promise<void> {
  await api.createConnector(id, {
    source: {
      postgres: {
        connection: connection(),
        replication_type: { logical_replication: { publication_name: null } },
        catalog: {
          default_action: "Include",
          column_hashing: { algorithm: "Sha256", salt: "pepper" },
          schemas: [
            {
              name: "public",
              tables: [
                { name: "hashed", columns: [{ name: "mail", hash: {} }] },
                { name: "aside", action: "Exclude" },
              ],
            },
          ],
        },
      },
    },
    sink: {
      webhook: {
        url: receiver.url,
        batch: { max_batch_size: 1 },
        retry: { initial_backoff_ms: 50, max_backoff_ms: 50 },
        ...webhook,
      },
    },
    limits: { cdc: { flush_interval_ms: 5 }, ...limits },
  });
  await waitFor("the stream", async () => (await api.connector(id)).status.state.realtime, {
    timeoutMs: 60_000,
  });
}

async function ask(id: string, name: string, key: unknown): Promise<{ status: number; body: Explanation }> {
  const query = new URLSearchParams({ table: name, key: JSON.stringify(key) });
  const response = await fetch(`${service.url}/api/v1/connectors/${id}/explain?${query}`);
  return { status: response.status, body: (await response.json()) as Explanation };
}

const explain = async (id: string, name: string, key: unknown) => (await ask(id, name, key)).body;

async function until(
  id: string,
  key: unknown,
  state: Explanation["state"],
  name = "t",
): Promise<Explanation> {
  const found = async () => {
    const body = await explain(id, name, key);
    return body.state === state ? body : false;
  };
  return await waitFor(`${JSON.stringify(key)} to be ${state}`, found, { timeoutMs: 30_000 }).catch(
    async () => {
      throw new Error(`it is ${JSON.stringify(await explain(id, name, key))}`);
    },
  );
}

const refuses =
  (word: string, status: number): ReceiverScript =>
  ({ body }) =>
    body.includes(word) ? { kind: "answer", status, body: "no" } : 200;

test("the life of a row: delivered, tried again while a later change waits, and delivered", async () => {
  await create("life");
  await sql("insert into t values (1, 'new')");
  const first = await until("life", { id: 1 }, "Delivered");
  expect(first).toMatchObject({
    schema: "public",
    name: "t",
    durable: true,
    parked: [],
    open: [],
    last_change: { op: "c" },
    deliveries: [{ status: 200, outcome: "delivered", attempts: 1 }],
    receipts: { hours: 24 },
  });
  const sent = receiver.requests.find(({ body }) => body.includes('"new"'));
  expect(first.deliveries[0]?.idempotency_key).toBe(sent!.headers["idempotency-key"]!);
  receiver.script = refuses("stuck", 503);
  await sql("update t set v = 'stuck' where id = 1");
  const retrying = await until("life", { id: 1 }, "Retrying");
  expect(retrying).toMatchObject({
    durable: false,
    last_change: { op: "u" },
    open: [{ state: "Retrying", status: 503 }],
  });
  await sql("delete from t where id = 1");
  await waitFor("the delete to wait", async () => (await explain("life", "t", { id: 1 })).open?.length === 2);
  expect(await explain("life", "t", { id: 1 })).toMatchObject({
    state: "Retrying",
    last_change: { op: "d" },
    open: [{ state: "Retrying" }, { state: "Waiting", attempts: 0 }],
  });
  receiver.script = () => 200;
  const last = await until("life", { id: 1 }, "Delivered");
  expect(last.deliveries.map(({ change, outcome }) => [change?.op, outcome])).toEqual([
    ["d", "delivered"],
    ["u", "delivered"],
    ["c", "delivered"],
  ]);
  expect(last.deliveries[1]!.attempts).toBeGreaterThan(1);
});

test("a row that was not there is not guessed at; what does not fit is refused at its field", async () => {
  const unknown = await explain("life", "t", { id: 404 });
  expect(unknown).toMatchObject({ state: "Unknown", last_change: null, durable: false, deliveries: [] });
  expect(unknown.summary).toContain("no receipt of this row from the last 24 hours");
  const errors = async (name: string, key: unknown) => {
    const { status, body } = await ask("life", name, key);
    return [status, (body as unknown as { errors: { path: string }[] }).errors.map(({ path }) => path)];
  };
  expect(await errors("nowhere", { id: 1 })).toEqual([422, ["/table"]]);
  expect(await errors("aside", { id: 1 })).toEqual([422, ["/table"]]);
  expect(await errors("keyless", { v: 1 })).toEqual([422, ["/table"]]);
  expect(await errors("t", { id: "x" })).toEqual([422, ["/key/id"]]);
  expect(await errors("t", { no: 1 })).toEqual([422, ["/key/no", "/key/id"]]);
  expect(await errors("t", [1])).toEqual([422, ["/key"]]);
  // What the state could not be asked for.
  expect(await errors("t", { id: "a\u0000" })).toEqual([422, ["/key/id"]]);
  expect(await errors("t", { id: "\ud800" })).toEqual([422, ["/key/id"]]);
  expect(await errors("t", { id: { deep: 1 } })).toEqual([422, ["/key/id"]]);
  expect((await errors("t\u0000", { id: 1 }))[0]).toBe(400);
  expect((await ask("nothing", "t", { id: 1 })).status).toBe(404);
});

test("rows of a table that keeps the order of the stream are found while they are tried again", async () => {
  receiver.script = refuses("stuck", 503);
  await sql("insert into by_index values (1, 11, 'stuck')");
  await until("life", { code: 11 }, "Retrying", "by_index");
  expect((await explain("life", "by_index", { code: 12 })).state).toBe("Unknown");
  receiver.script = () => 200;
  await until("life", { code: 11 }, "Delivered", "by_index");
});

test("keys of several columns and types are found as the receiver sees them, and hashed columns by their hash", async () => {
  await sql(`insert into kinds values (1.50, '2024-01-02 03:04:05.6+02', '\\x00ff', '018bcfe5-6803-7b54-a1b2-c3d4e5f60718', true, 1);
    insert into hashed values ('someone@example.com', 1)`);
  const key = {
    a: "1.50",
    b: "2024-01-02T01:04:05.6Z",
    c: "AP8=",
    d: "018bcfe5-6803-7b54-a1b2-c3d4e5f60718",
    e: true,
  };
  await until("life", key, "Delivered", "kinds");
  const hash = new Bun.CryptoHasher("sha256").update("peppersomeone@example.com").digest("hex");
  await until("life", { mail: hash }, "Delivered", "hashed");
  expect((await explain("life", "hashed", { mail: "someone@example.com" })).state).toBe("Unknown");
});

test("rows of the first copy have receipts, and so has what a dead service had delivered", async () => {
  await sql("insert into t select n, 'many' from generate_series(1000, 1999) n");
  await until("life", { id: 1999 }, "Delivered");
  await service.kill();
  await startService();
  await until("life", { id: 1500 }, "Delivered");
  await sql("insert into t values (2000, 'after')");
  await until("life", { id: 2000 }, "Delivered");
  await create("copied");
  expect(await until("copied", { id: 1234 }, "Delivered")).toMatchObject({
    last_change: { op: "r" },
    durable: true,
  });
  await api.command("copied", "Delete");
});

test("a parked row says so, with its id; then it is delivered, or discarded", async () => {
  await api.command("life", "Stop");
  await waitFor("the stop", async () => (await api.connector("life")).status.state.shutdown);
  receiver.script = refuses("bad", 422);
  await create("parks", { on_exhausted: { park: {} }, batch: { max_batch_size: 0 } });
  await sql("insert into t values (3001, 'good'), (3002, 'bad'), (3003, 'bad')");
  // What is parked is on record a moment before its receipt is.
  await waitFor(
    "the receipt",
    async () => (await explain("parks", "t", { id: 3002 })).deliveries[0]?.outcome === "parked",
  );
  const parked = await until("parks", { id: 3002 }, "Parked");
  expect(parked.deliveries[0]).toMatchObject({ outcome: "parked", status: 422 });
  expect(parked.parked).toEqual([parked.deliveries[0]!.idempotency_key!]);
  expect((await until("parks", { id: 3001 }, "Delivered")).durable).toBe(true);
  // However the key is written.
  expect(await explain("parks", "t", { id: "3002" })).toMatchObject({
    state: "Parked",
    parked: parked.parked,
  });
  const other = await until("parks", { id: 3003 }, "Parked");
  await api.call("POST", `/api/v1/connectors/parks/parked/${other.parked[0]}/discard`);
  expect(await until("parks", { id: 3003 }, "Discarded")).toMatchObject({ durable: false, parked: [] });
  receiver.script = () => 200;
  await api.call("POST", `/api/v1/connectors/parks/parked/${parked.parked[0]}/retry`);
  expect((await until("parks", { id: 3002 }, "Delivered")).durable).toBe(true);
  await api.command("parks", "Delete");
  await api.command("life", "Start");
  await until("life", { id: 3003 }, "Delivered");
});

test("a refusal that stopped the connector is told, also of one that does not run", async () => {
  receiver.script = refuses("worse", 409);
  await sql("insert into t values (4001, 'worse')");
  await waitFor("the failure", async () => (await api.connector("life")).status.status.failed);
  expect(await until("life", { id: 4001 }, "Refused")).toMatchObject({
    durable: false,
    last_change: { op: "c" },
    open: null,
    deliveries: [{ outcome: "refused", status: 409 }],
  });
  receiver.script = () => 200;
  await api.command("life", "Start");
  await until("life", { id: 4001 }, "Delivered");
});

test("the command says it in words, the metrics how much it takes; ReInitialize, and switching receipts off, remove them", async () => {
  const run = Bun.spawn([...command, "explain", "life", "public.t", '{"id":4001}', "--url", service.url], {
    stdout: "pipe",
  });
  const text = await new Response(run.stdout).text();
  expect(text).toContain('public.t {"id":4001}: DELIVERED');
  expect(text).toContain("409");
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/millrace_receipts_bytes\{connector="life"\} [1-9]/);
  await patch("life", { limits: { receipts_hours: 0 } });
  const isGone = async () =>
    !(await (await fetch(`${service.url}/metrics`)).text()).includes("millrace_receipts_bytes{");
  await waitFor("the receipts to go", isGone, { timeoutMs: 30_000 });
  expect((await explain("life", "t", { id: 4001 })).summary).toContain("keeps no receipts");
  await patch("life", { limits: { receipts_hours: 2 } });
  await waitFor("the stream", async () => (await api.connector("life")).status.state.realtime);
  await sql("insert into t values (5001, 'again')");
  await until("life", { id: 5001 }, "Delivered");
  expect((await explain("life", "t", { id: 4001 })).state).toBe("Unknown");
  await api.command("life", "ReInitialize");
  expect(await until("life", { id: 5001 }, "Delivered")).toMatchObject({
    deliveries: [{ outcome: "delivered" }],
  });
});

test("a Postgres sink keeps no receipts, and explains nothing", async () => {
  const pg = {
    source: { postgres: { connection: connection(), replication_type: { logical_replication: {} } } },
    sink: { postgres: { connection: connection() } },
    disabled: true,
  };
  const post = (body: object) =>
    fetch(`${service.url}/api/v1/connectors/pg`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const refused = await post({ ...pg, limits: { receipts_hours: 1 } });
  expect([refused.status, await refused.json()]).toMatchObject([
    422,
    { errors: [{ path: "/limits/receipts_hours" }] },
  ]);
  expect((await post(pg)).status).toBe(201);
  expect(await ask("pg", "t", { id: 1 })).toMatchObject({ status: 422, body: { code: "unsupported_kind" } });
});
