// Replays through the real API and the command line, of the built program: from the request to what a receiver has, over kill -9, and at
// connectors that do not run.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { replayResultOf, type Task } from "../../src/connector/task.ts";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { isWholeMatrix, matrixTest } from "../support/matrix.ts";
import { heldByVersion, keysThatWentBack, rowsOf } from "../support/oracles/webhook-oracles.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import {
  askForReplay,
  changesOfLarge,
  largeTable,
  rowsOfLarge,
  untilOver,
} from "../support/webhook/replay-tasks.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(120_000);

const path = "/api/v1/connectors/shop";
/** In the matrix enough for a replay to be under way when the service is killed, each time. */
const rows = isWholeMatrix ? 60_000 : 1_000;
const stack = new AsyncDisposableStack();
let command: string;
let server: PostgresServer;
let receiver: WebhookReceiver;
let service: ServiceProcess;
let api: ApiClient;

beforeAll(async () => {
  [command, server, receiver] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings: { fsync: "off" } }),
    WebhookReceiver.start(),
  ]);
  stack.use(server);
  stack.use(receiver);
  for (const name of ["shop", "copy"]) await server.createDatabase(name);
  await server.query(
    `create table orders (id int primary key, v text); insert into orders select i, 'v' || i from generate_series(1, 200) i;
     ${largeTable(rows, 300)}`,
    "shop",
  );
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-replay-"));
  stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory }));
  api = new ApiClient(service.url);
  const source = {
    postgres: {
      connection: server.connection("shop"),
      replication_type: { logical_replication: {} },
    },
  };
  const webhook = {
    url: receiver.url,
    path_template: "{schema}/{table}",
    batch: { max_batch_size: 100 },
    retry: { initial_backoff_ms: 10, max_backoff_ms: 50 },
  };
  await api.createConnector("shop", { source, sink: { webhook } });
  await untilRealtime();
});
afterAll(() => stack.disposeAsync());

const untilRealtime = (id = "shop") =>
  waitFor("the stream", async () => (await api.connector(id)).status.state.realtime, { timeoutMs: 60_000 });

const replay = (spec: object, connector = "shop") => askForReplay(api, connector, spec);
const over = (id: string, connector = "shop") => untilOver(api, connector, id, 90_000);

async function run(...words: readonly string[]) {
  const child = Bun.spawn([command, ...words, "--url", service.url], { stdout: "pipe", stderr: "pipe" });
  const [code, out, error] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out: out + error };
}

test("rows are sent by their keys, and the task and the command tell which have no row", async () => {
  const before = rowsOf(receiver, "orders").length;
  const task = await replay({ name: "orders", keys: [{ id: 7 }, { id: 9_999 }] });
  // An identical one that is not finished is the same; one of other keys is not.
  const done = await over(task.id);
  expect(done).toMatchObject({
    state: "Done",
    spec: { Replay: { database: "shop", keys: [{ id: 7 }, { id: 9_999 }] } },
  });
  expect(replayResultOf(done)).toEqual({
    rows: 1,
    missing: [{ id: 9_999 }],
    as_of_lsn: expect.stringMatching(/^[0-9A-F]+\/[0-9A-F]+$/),
  });
  expect(rowsOf(receiver, "orders").slice(before)).toMatchObject([{ id: 7, v: "v7" }]);
  const all = await run("replay", "shop", "public.orders", "--all", "--watch");
  expect(all).toMatchObject({ code: 0, out: expect.stringContaining("200 rows sent again") });
  const some = await run("replay", "shop", "orders", '{"id": 8}', '{"id": 8888}', "--watch");
  expect(some.code).toBe(1);
  expect(some.out).toContain("1 row sent again, 1 not at the source");
  expect(some.out).toContain('no row {"id":8888}');
});

test("bad requests get a clear answer", async () => {
  for (const [Replay, errors] of [
    [{ name: "orders", where: "id > 7" }, [{ path: "/Replay/where" }]],
    [{ name: "orders", keys: [] }, [{ path: "/Replay/keys" }]],
    [{ name: "orders", keys: Array.from({ length: 1001 }, (_, id) => ({ id })) }, [{ path: "/Replay/keys" }]],
    [{ name: "orders", keys: [{ id: 1 }, { id: null }] }, [{ path: "/Replay/keys/1/id" }]],
    [{ name: "orders", keys: [{ id: { a: 1 } }] }, [{ path: "/Replay/keys/0/id" }]],
    [{ name: "orders", keys: [7] }, [{ path: "/Replay/keys/0" }]],
    [{ name: "orders", key: [{ id: 7 }] }, [{ path: "/Replay/key" }]],
  ] as const) {
    const response = await api.request("POST", `${path}/tasks`, { Replay: { schema: "public", ...Replay } });
    expect([response.status, await response.json()]).toMatchObject([422, { errors }]);
  }
  const failed = await over((await replay({ name: "orders", keys: [{ id: 1 }, { no: 1 }] })).id);
  expect(failed).toMatchObject({
    state: "Failed",
    attempt: 1,
    reason: expect.stringContaining("keys[1].no"),
  });
  expect((await over((await replay({ name: "nothing" })).id)).reason).toContain("does not exist");
});

test("a thousand keys are one task", async () => {
  const keys = Array.from({ length: 1000 }, (_, i) => ({ id: i + 1 }));
  const first = await replay({ name: "orders", keys });
  const { result } = await over(first.id);
  expect(result).toMatchObject({ rows: 200 });
  expect(result?.missing).toHaveLength(800);
});

test("a Postgres sink is sent nothing again, and says what to do instead", async () => {
  const connection = server.connection("shop");
  await api.createConnector("copy", {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { postgres: { connection: server.connection("copy") } },
  });
  await untilRealtime("copy");
  const failed = await over((await replay({ name: "orders" }, "copy")).id, "copy");
  expect(failed).toMatchObject({
    state: "Failed",
    reason: expect.stringContaining("Verify task with repair Apply"),
  });
  expect((await api.request("DELETE", "/api/v1/connectors/copy")).status).toBeLessThan(300);
});

test("a task waits while the connector is stopped, and can be cancelled meanwhile", async () => {
  await api.command("shop", "Stop");
  await waitFor("the stop", async () => (await api.connector("shop")).status.state.shutdown);
  const [kept, cancelled] = [
    await replay({ name: "orders", keys: [{ id: 1 }] }),
    await replay({ name: "orders", keys: [{ id: 2 }] }),
  ];
  expect((await api.call<Task>("POST", `${path}/tasks/${cancelled.id}/cancel`)).state).toBe("Cancelled");
  const before = rowsOf(receiver, "orders").length;
  await api.command("shop", "Start");
  expect(await over(kept.id)).toMatchObject({ state: "Done", result: { rows: 1 } });
  expect(rowsOf(receiver, "orders").slice(before)).toMatchObject([{ id: 1 }]);
});

// Every day test/sink/delivery/replay/replay.test.ts dies amid one.
matrixTest(
  "killed amid a replay under load, again and again: the receiver has the source, and each version only grows",
  async () => {
    // The receiver has lost all that it had.
    receiver.requests.length = 0;
    receiver.script = () => ({ kind: "answer", status: 200, delayMs: 20 });
    const changes = changesOfLarge(server, rows);
    const task = await replay({ name: "large" });
    for (let kill = 0; kill < 3; kill++) {
      const seen = receiver.requests.length;
      await waitFor("some of it", () => receiver.requests.length > seen + 40, { timeoutMs: 60_000 });
      await service.kill();
      await service.launch();
      api = new ApiClient(service.url);
    }
    receiver.script = () => 200;
    expect(await over(task.id)).toMatchObject({ state: "Done" });
    await changes[Symbol.asyncDispose]();
    const source = await rowsOfLarge(server);
    const held = () =>
      [...heldByVersion(receiver, "large").values()]
        .map(({ id, v }) => ({ id, v }))
        .toSorted((a, b) => Number(a.id) - Number(b.id));
    await waitFor("the receiver to hold the source", () => Bun.deepEquals(held(), source), {
      timeoutMs: 60_000,
      intervalMs: 1_000,
    });
    expect(keysThatWentBack(rowsOf(receiver, "large"))).toEqual([]);
  },
);
