// Snapshot tasks through the real API: from 202 to their end, through each of their states, over kill -9, and at connectors that
// do not run.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Task, TaskRequest } from "../../src/connector/task.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { TaskStage } from "../support/program/task-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(90_000);

let stage: TaskStage;
let path: string;
let server: PostgresServer;
let api: ApiClient;

beforeAll(async () => {
  const hidden = { name: "hidden", action: "Exclude", columns: [] };
  stage = await TaskStage.start({
    source: `create table orders (id int primary key, v text); insert into orders select i, 'v' || i from generate_series(1, 1000) i;
     create table parts (id int primary key); insert into parts select generate_series(1, 10);
     create table hidden (id int primary key); create table doomed (id int primary key)`,
    catalog: {
      name: "shop",
      default_action: "Include",
      schemas: [{ name: "public", action: "Include", tables: [hidden] }],
    },
  });
  ({ path, server, api } = stage);
});
afterAll(() => stage[Symbol.asyncDispose]());

const create = (name: string, more: Partial<NonNullable<TaskRequest["Snapshot"]>> = {}): Promise<Task> =>
  stage.create({ Snapshot: { schema: "public", name, ...more } });
const read = (id: string) => stage.read(id);
const until = (id: string, isThere: (task: Task) => boolean) => stage.until(id, isThere);
const untilIn = (id: string, state: Task["state"]) => stage.untilIn(id, state);

async function expectEqual(table: string): Promise<void> {
  const rows = (database: string) => server.query<object>(`select * from ${table} order by id`, database);
  expect(await rows("copy")).toEqual(await rows("shop"));
}

test("fifty identical requests that race are answered with one task", async () => {
  // It must not be done before the last of them.
  const holder = await server.connect("copy");
  await holder.query("begin; lock table orders in access exclusive mode");
  const created = await Promise.all(Array.from({ length: 50 }, () => create("orders")));
  await holder.end();
  const [id = "", ...others] = new Set(created.map((task) => task.id));
  expect(others).toEqual([]);
  const done = await untilIn(id, "Done");
  // Behind a lock that lasts longer than a second it begins again.
  expect(done.attempt).toBeLessThanOrEqual(1);
  expect(done.progress).toMatchObject({ rows: 1000 });
  expect(done).not.toContainAnyKeys(["reason", "next_attempt_at"]);
  const next = await create("orders");
  expect(next.id).not.toBe(id);
  await untilIn(next.id, "Done");
  const listed = await api.call<Task[]>("GET", path);
  expect(listed.map((task) => task.id)).toEqual([next.id, id]);
});

test("a table that is not there, is not selected, or is in another database fails its task, with the reason", async () => {
  const tasks = [
    await create("nothing"),
    await create("hidden"),
    await create("orders", { database: "copy" }),
  ];
  for (const { id } of tasks) expect((await untilIn(id, "Failed")).attempt).toBe(1);
  const reasons = await Promise.all(tasks.map(async ({ id }) => (await read(id)).reason));
  expect(reasons).toEqual([
    expect.stringContaining("public.nothing does not exist"),
    expect.stringContaining("does not select it"),
    expect.stringContaining("reads the database shop"),
  ]);
  expect((await api.connector("shop")).status.state.realtime).toBeDefined();
});

test("what the sink refuses is tried again later, or at once when asked; then its reason is gone", async () => {
  await server.query(
    "delete from parts where id = 9; alter table parts add constraint small check (id < 5) not valid",
    "copy",
  );
  const { id } = await create("parts");
  const waiting = await until(id, ({ attempt }) => attempt === 1);
  expect(waiting).toMatchObject({ state: "Pending", reason: expect.stringContaining("small") });
  expect(Date.parse(waiting.next_attempt_at ?? "")).toBeGreaterThan(Date.now());
  await server.query("alter table parts drop constraint small", "copy");
  await api.call("POST", `${path}/${id}/retry`);
  const done = await untilIn(id, "Done");
  expect(done.attempt).toBe(1);
  expect(done).not.toContainAnyKeys(["reason", "next_attempt_at"]);
});

test("a task that runs cannot be cancelled, and goes on after kill -9", async () => {
  await server.query("insert into parts values (99)", "copy");
  const holder = await server.connect("copy");
  await holder.query("begin; lock table parts in access exclusive mode");
  const { id } = await create("parts", { truncate: true });
  await untilIn(id, "Running");
  const refused = await api.request("POST", `${path}/${id}/cancel`);
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([409, "conflict"]);
  expect((await create("parts", { truncate: true })).id).toBe(id);
  expect(await api.call<object>("GET", "/snapshots")).toMatchObject({ active: true, count: 1 });
  await stage.restart();
  await holder.end();
  expect((await untilIn(id, "Done")).attempt).toBe(0);
  await expectEqual("parts");
});

test("tasks wait at a connector that is stopped or disabled; there they can be cancelled", async () => {
  await api.command("shop", "Stop");
  await waitFor("the end", async () => (await api.connector("shop")).status.state.shutdown);
  const [cancelled, doomed, orders] = [await create("parts"), await create("doomed"), await create("orders")];
  for (const _ of ["once", "again"]) {
    const { state } = await api.call<Task>("POST", `${path}/${cancelled.id}/cancel`);
    expect(state).toBe("Cancelled");
  }
  expect((await api.request("POST", `${path}/${cancelled.id}/retry`)).status).toBe(409);
  await server.query("drop table doomed", "shop");
  await api.call("PATCH", "/api/v1/connectors/shop", { disabled: true });
  await api.command("shop", "Start");
  await waitFor("disabled", async () => (await api.connector("shop")).status.state.disabled);
  expect((await read(orders.id)).state).toBe("Pending");
  await api.call("PATCH", "/api/v1/connectors/shop", { disabled: false });
  await untilIn(orders.id, "Done");
  expect((await untilIn(doomed.id, "Failed")).reason).toContain("public.doomed does not exist");
  expect((await read(cancelled.id)).state).toBe("Cancelled");
});
