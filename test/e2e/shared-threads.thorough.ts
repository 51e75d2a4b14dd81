// Six connectors in one thread of each kind: some begin again and again, and one has a receiver that hangs. The others notice
// nothing, and nothing is left behind in the threads.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSockets } from "../../bench/measure/process-usage.ts";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { type ReceivedRequest, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(180_000);

const tables = ["p0", "p1", "p2"] as const;
const hooks = ["w0", "w1", "w2"] as const;
const restless = ["p0", "w0"] as const;
const steady = ["p1", "p2", "w1", "w2"] as const;
const restarts = 12;

async function begin(owned: AsyncDisposableStack) {
  const directory = await mkdtemp(join(tmpdir(), "millrace-e2e-"));
  owned.defer(() => rm(directory, { recursive: true, force: true }));
  const server = owned.use(await PostgresServer.start({ settings: { max_replication_slots: 20 } }));
  await server.createDatabase("source");
  await server.createDatabase("sink");
  await server.query(
    "create table t (id int primary key, v text); insert into t values (0, 'copied')",
    "source",
  );
  const receiver = owned.use(await WebhookReceiver.start());
  const service = owned.use(
    await ServiceProcess.start({
      command: [await compiledBinary()],
      dataDirectory: join(directory, "data"),
      workingDirectory: directory,
      environment: { MILLRACE_WORKER_THREADS: "1" },
    }),
  );
  const api = new ApiClient(service.url);
  const source = {
    postgres: { connection: server.connection("source"), replication_type: { logical_replication: {} } },
  };
  const connection = server.connection("sink");
  for (const id of tables) {
    await api.createConnector(id, { source, sink: { postgres: { connection, target_schema: id } } });
  }
  for (const id of hooks) {
    await api.createConnector(id, { source, sink: { webhook: { url: `${receiver.url}/${id}` } } });
  }
  return { server, receiver, service, api };
}

type Stage = Awaited<ReturnType<typeof begin>>;

/** Whose stream is whose, by the server's processes. */
async function streams({ server }: Stage): Promise<Map<string, number>> {
  const rows = await server.query<{ slot: string; pid: number }>(
    "select slot_name as slot, active_pid as pid from pg_replication_slots where active",
  );
  return new Map(rows.map(({ slot, pid }) => [slot.replace("millrace_", ""), pid]));
}

const untilAllStream = (stage: Stage) =>
  waitFor("all six streams", async () => (await streams(stage)).size === 6, { timeoutMs: 60_000 });

const sessions = async ({ server }: Stage) => {
  const rows = await server.query<{ n: number }>(
    "select count(*)::int as n from pg_stat_activity where application_name like 'millrace%'",
  );
  return rows[0]?.n ?? 0;
};

/** Each once by its key, in the order in which they came: what a receiver of this path holds. */
function requestsAt({ receiver }: Stage, hook: string): readonly ReceivedRequest[] {
  const mine = receiver.delivered.filter(({ path }) => path.startsWith(`/${hook}/`));
  return [...new Map(mine.map((request) => [request.headers["idempotency-key"], request])).values()];
}

const idsAt = (stage: Stage, hook: string): number[] =>
  WebhookReceiver.rows(requestsAt(stage, hook))
    .map(({ id }) => Number(id))
    .toSorted((a, b) => a - b);

test("connectors that begin again leave the others in their thread alone, and nothing behind", async () => {
  await using owned = new AsyncDisposableStack();
  const stage = await begin(owned);
  const { server, receiver, service, api } = stage;
  let written = 0;
  const write = async () => {
    await server.query(`insert into t values (${++written}, 'v')`, "source");
  };
  await untilAllStream(stage);
  await write();
  await waitFor("a row at each receiver", () => hooks.every((hook) => idsAt(stage, hook).includes(1)));
  const before = {
    streams: await streams(stage),
    sessions: await sessions(stage),
    sockets: openSockets(service.pid ?? 0),
  };

  for (let round = 0; round < restarts; round++) {
    // One of its requests is under way without an answer each time.
    receiver.script = ({ path }) => (path.startsWith("/w0") ? { kind: "hang" } : undefined);
    await write();
    for (const id of restless) await api.command(id, "Restart");
    await write();
    receiver.script = () => undefined;
    await untilAllStream(stage);
  }
  await write();

  const wanted = Array.from({ length: written + 1 }, (_, id) => id);
  for (const hook of hooks) {
    await waitFor(`each row at ${hook}`, () => Bun.deepEquals(idsAt(stage, hook), wanted)).catch(() => {});
    expect(idsAt(stage, hook)).toEqual(wanted);
  }
  for (const id of tables) {
    const count = async () => (await server.query(`select from ${id}.t`, "sink")).length;
    await waitFor(`each row at ${id}`, async () => (await count()) === wanted.length);
  }
  const after = await streams(stage);
  expect(steady.map((id) => after.get(id))).toEqual(steady.map((id) => before.streams.get(id)));
  for (const hook of ["w1", "w2"]) {
    const sent = receiver.delivered.filter(({ path }) => path.startsWith(`/${hook}/`));
    expect(sent.length).toBe(requestsAt(stage, hook).length);
  }
  await waitFor("the sessions to be as before", async () => (await sessions(stage)) <= before.sessions);
  await waitFor("the sockets to be as before", () => openSockets(service.pid ?? 0) <= before.sockets + 4, {
    timeoutMs: 40_000,
  });
  for (const id of [...tables, ...hooks]) await api.deleteConnector(id);
  expect(service.log).not.toContain("worker thread");
});
