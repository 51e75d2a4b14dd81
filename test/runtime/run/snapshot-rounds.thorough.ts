// A connector of replication type snapshot, with real workers between real servers: everything is copied once or
// repeatedly, and nothing is created at the source.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../../src/connector/status.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";

let server: PostgresServer;
beforeAll(async () => {
  // Logical decoding, slots and walsenders are disabled.
  server = await PostgresServer.start({
    settings: { wal_level: "minimal", max_wal_senders: 0, max_replication_slots: 0 },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const statusOf = async (runtime: RuntimeFixture, id: string) => (await runtime.connectors.get(id)).status;

async function until(runtime: RuntimeFixture, id: string, isThere: (status: ConnectorStatus) => boolean) {
  return await waitFor(`the status of ${id}`, async () => {
    const status = await statusOf(runtime, id);
    return isThere(status) && status;
  }).catch(async (error: unknown) => {
    throw new Error(`it is ${JSON.stringify(await statusOf(runtime, id))}`, { cause: error });
  });
}

const isComplete = ({ state, status }: ConnectorStatus) =>
  state.complete !== undefined && status.complete !== undefined;

async function made(name: string, sql: string): Promise<ConnectorRequest> {
  await server.createDatabase(`${name}_source`);
  await server.createDatabase(`${name}_sink`);
  await server.query(
    `create role ${name}_reader login password 'r'; grant pg_read_all_data to ${name}_reader`,
  );
  await server.query(sql, `${name}_source`);
  const { host, port, user, password } = server;
  const connection = { host, port, user, password, database: `${name}_sink` };
  const source = { host, port, user: `${name}_reader`, password: "r", database: `${name}_source` };
  return {
    id: name,
    source: { postgres: { connection: source, replication_type: { snapshot: {} } } },
    sink: { postgres: { connection } },
  };
}

async function expectEqual(name: string, ...tables: string[]): Promise<void> {
  for (const table of tables) {
    const rows = (side: string) =>
      server.query<object>(`select * from ${table} t order by t::text`, `${name}_${side}`);
    expect(await rows("sink")).toEqual(await rows("source"));
  }
}

test("everything is copied once, and again after another start: rows deleted at the source disappear from the sink", async () => {
  const request = await made(
    "once",
    `create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 2000) i;
     create table bare (v text); insert into bare values ('a'), ('a'), (null); create table none (id int primary key);
     create table shaped (id int primary key, gone int not null, a int not null, x int); insert into shaped values (1, 2, 3, 4);
     create table before (id int primary key); insert into before values (1)`,
  );
  await using runtime = await RuntimeFixture.open("real");
  await runtime.connectors.createOrReplace("once", request, null);
  const { progress } = await until(runtime, "once", isComplete);
  expect(progress?.snapshot).toMatchObject({ tables: 5, tables_done: 5, rows: 2005 });
  await expectEqual("once", "t", "bare", "none", "shaped", "before");
  const phases = (await runtime.connectors.history("once")).map(({ status }) => Object.keys(status.state)[0]);
  expect(new Set(phases)).toEqual(new Set(["start", "initialize", "snapshot", "complete"]));

  await server.query(
    `delete from t where id % 3 = 0; update t set v = 'new' where id = 1; insert into t values (5000, 'x');
     delete from bare where v is null; alter table t add column more int default 7; create table later (id int primary key);
     alter table shaped drop column gone; alter table shaped rename a to b; alter table shaped alter x type text;
     insert into shaped values (2, 3, 'text'); alter table before rename to after`,
    "once_source",
  );
  // It is complete, also after a restart of the service.
  const runs = runtime.runs;
  await runtime.restart();
  await until(runtime, "once", isComplete);
  expect(runtime.runs).toBe(runs);
  const { run_id } = await runtime.connectors.get("once");
  await runtime.connectors.command("once", "Start");
  const isNew = async () => (await runtime.connectors.get("once")).run_id !== run_id;
  await waitFor("a new run", isNew);
  await until(runtime, "once", isComplete);
  await expectEqual("once", "t", "bare", "none", "later", "shaped", "after");
  expect(await server.query("select to_regclass('before')::text as name", "once_sink")).toEqual([
    { name: null },
  ]);
  expect(await server.query("select from pg_publication", "once_source")).toEqual([]);
});

test("a reader of the sink never sees an empty or partly copied table", async () => {
  const request = await made(
    "seen",
    "create table t (id int primary key, round int); insert into t select i, 0 from generate_series(1, 20000) i",
  );
  await using runtime = await RuntimeFixture.open("real");
  await runtime.connectors.createOrReplace("seen", request, null);
  await until(runtime, "seen", isComplete);
  const stop = new AbortController();
  const seen = new Set<string>();
  const reading = (async () => {
    while (!stop.signal.aborted) {
      const [row] = await server.query<{ rows: number; rounds: string }>(
        "select count(*)::int as rows, string_agg(distinct round::text, ',') as rounds from t",
        "seen_sink",
      );
      seen.add(`${row?.rows} of round ${row?.rounds}`);
    }
  })();
  for (const round of [1, 2]) {
    await server.query(`update t set round = ${round}`, "seen_source");
    await runtime.connectors.command("seen", "Restart");
    const isCopied = () => [...seen].some((line) => line.endsWith(`round ${round}`));
    await waitFor(`round ${round}`, isCopied);
    await until(runtime, "seen", isComplete);
  }
  stop.abort();
  await reading;
  expect([...seen].toSorted()).toEqual(["20000 of round 0", "20000 of round 1", "20000 of round 2"]);
});

test("a connector on a schedule shows its next copy; a task does not wait for it", async () => {
  const request = await made(
    "nightly",
    "create table t (id int primary key, v int); insert into t values (1, 1), (2, 2)",
  );
  await using runtime = await RuntimeFixture.open("real");
  const schedule = { rate: { value: 1, unit: "Hour" as const } };
  await runtime.connectors.createOrReplace("nightly", { ...request, schedule }, null);
  const isScheduled = ({ state }: ConnectorStatus) => state.scheduled !== undefined;
  const { next_snapshot_at } = await until(runtime, "nightly", isScheduled);
  const waitMs = Date.parse(next_snapshot_at ?? "") - Date.now();
  expect(waitMs).toBeGreaterThan(3_500_000);
  expect(waitMs).toBeLessThanOrEqual(3_600_000);
  await expectEqual("nightly", "t");
  await server.query(
    "update t set v = 9; delete from t where id = 2; insert into t values (3, 3)",
    "nightly_source",
  );
  const spec = { Snapshot: { schema: "public", name: "t", truncate: true } };
  const task = await runtime.tasks.create("nightly", spec);
  await waitFor("the task", async () => (await runtime.tasks.get("nightly", task.id)).state === "Done");
  await expectEqual("nightly", "t");
  const after = await until(runtime, "nightly", isScheduled);
  expect(after.next_snapshot_at).toBe(next_snapshot_at);
  // A task created while nothing ran is executed as soon as the connector is idle again.
  await runtime.connectors.patch("nightly", { disabled: true });
  await server.query("update t set v = 10", "nightly_source");
  const early = await runtime.tasks.create("nightly", spec);
  await runtime.restart();
  await runtime.connectors.patch("nightly", { disabled: false });
  await waitFor(
    "the early task",
    async () => (await runtime.tasks.get("nightly", early.id)).state === "Done",
  );
  await expectEqual("nightly", "t");
  // A round that became due while the service was down is made at once.
  await runtime.state.connectors.update("nightly", { roundBegunAt: new Date(Date.now() - 7_200_000) });
  await server.query("insert into t values (4, 4)", "nightly_source");
  await runtime.restart();
  const isCopied = async () =>
    (await server.query("select from t where id = 4", "nightly_sink")).length === 1;
  await waitFor("the round that was missed", isCopied);
});

test("a webhook receives every row in each round, with new keys", async () => {
  const request = await made(
    "hooked",
    "create table t (id int primary key, v int); insert into t select i, i from generate_series(1, 300) i",
  );
  await using receiver = await WebhookReceiver.start();
  await using runtime = await RuntimeFixture.open("real");
  const sink = { webhook: { url: receiver.url, path_template: "{table}" } };
  await runtime.connectors.createOrReplace("hooked", { ...request, sink }, null);
  await until(runtime, "hooked", isComplete);
  const rows = () =>
    receiver.delivered.flatMap(({ body }) => JSON.parse(body) as { id: number; v: number }[]);
  expect(
    rows()
      .map(({ id }) => id)
      .toSorted((a, b) => a - b),
  ).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
  const first = receiver.delivered.length;
  await server.query("update t set v = -v", "hooked_source");
  const { run_id } = await runtime.connectors.get("hooked");
  await runtime.connectors.command("hooked", "Restart");
  await waitFor("a new run", async () => (await runtime.connectors.get("hooked")).run_id !== run_id);
  await until(runtime, "hooked", isComplete);
  expect(rows()).toHaveLength(600);
  expect(rows().filter(({ v }) => v < 0)).toHaveLength(300);
  const keys = receiver.delivered.map(({ headers }) => headers["idempotency-key"]);
  expect(new Set(keys).size).toBe(keys.length);
  expect(receiver.delivered.length).toBeGreaterThan(first);
});
