// Comparisons through the built program: the task over the API and over kill -9, the command and its exit code, and where the result is shown.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { TableStatuses } from "../../src/connector/table-status.ts";
import type { Task, VerifySpec } from "../../src/connector/task.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { TaskStage } from "../support/program/task-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(90_000);

const path = "/api/v1/connectors/shop";
let stage: TaskStage;
let server: PostgresServer;
let api: ApiClient;

beforeAll(async () => {
  stage = await TaskStage.start({
    source: `create table orders (id int primary key, v text); insert into orders select i, 'v' || i from generate_series(1, 20000) i;
     create table parts (id int primary key); insert into parts select generate_series(1, 10)`,
  });
  ({ server, api } = stage);
});
afterAll(() => stage[Symbol.asyncDispose]());

const create = (repair: VerifySpec["repair"]): Promise<Task> =>
  stage.create({ Verify: { schema: "public", name: "orders", repair } });
const done = (id: string) => stage.done(id);

async function run(...words: string[]): Promise<{ readonly code: number; readonly out: string }> {
  const child = Bun.spawn([stage.command, ...words, "--url", stage.service.url], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out: out + err };
}

const verified = async () => {
  const { tables } = await api.call<TableStatuses>("GET", `${path}/tables`);
  return tables.find(({ name }) => name === "orders")?.verified;
};

test("what differs is told by result, table, metrics and exit code, and mended", async () => {
  await server.query("update orders set v = 'wrong' where id = 7; delete from orders where id = 8", "copy");
  const task = await create("DryRun");
  // An identical one that is not finished is the same.
  const { result, state, reason } = await done(task.id);
  expect([state, reason]).toEqual(["Done", undefined]);
  expect(result).toMatchObject({ rows: 20_000, missing: 1, extra: 0, changed: 1, repaired: 0 });
  expect(result).toHaveProperty("statements.length", 2);
  // The run reports its tables a moment after it has begun.
  const shown = await waitFor("the table", verified);
  expect(shown).toMatchObject({ rows: 20_000, differing: 2, as_of_lsn: result!.as_of_lsn });
  const metrics = await (await api.request("GET", "/metrics")).text();
  expect(metrics).toContain('millrace_verify_differences{connector="shop"} 2');
  expect(metrics).toContain('millrace_verify_rows_total{connector="shop"} 20000');

  const found = await run("verify", "shop", "orders", "--watch");
  expect(found.code).toBe(1);
  expect(found.out).toContain("2 rows differ of 20,000: 1 missing, 0 extra, 1 changed");
  expect(found.out).toContain("Changed id = 7: v");
  const mended = await run("verify", "shop", "orders", "--repair", "apply", "--watch");
  expect(mended.code).toBe(1);
  expect(mended.out).toContain("2 repaired");
  const all = await run("verify", "shop", "--watch");
  expect(all.out).toContain("public.parts: 10 rows are equal");
  expect(all.code).toBe(0);
  expect(await verified()).toMatchObject({ differing: 0 });
});

test("a comparison goes on after kill -9, and under a log that grows", async () => {
  await server.query("update orders set v = 'wrong' where id % 50 = 0", "copy");
  const task = await create("Apply");
  await stage.until(task.id, ({ state }) => state !== "Pending");
  await stage.restart();
  await server.query("update orders set v = v || ' new' where id % 100 = 0", "shop");
  const { state, result } = await done(task.id);
  expect(state).toBe("Done");
  expect(result).toMatchObject({ repaired: expect.any(Number) });
  expect((await done((await create("None")).id)).result).toMatchObject({ missing: 0, extra: 0, changed: 0 });
});

test("a comparison that runs is cancelled, and another one takes its place", async () => {
  const other = await server.connect("shop");
  await other.query("begin; insert into orders values (0, 'open')");
  const task = await create("None");
  await stage.untilIn(task.id, "Running");
  const cancelled = await api.call<Task>("POST", `${path}/tasks/${task.id}/cancel`);
  expect(cancelled.state).toBe("Cancelled");
  await other.query("commit");
  await other.end();
  const next = await create("None");
  expect(next.id).not.toBe(task.id);
  expect((await done(next.id)).result).toMatchObject({ rows: 20_001, missing: 0, extra: 0, changed: 0 });
  expect((await stage.read(task.id)).state).toBe("Cancelled");
});

test("bad requests get a clear answer", async () => {
  for (const Verify of [
    { schema: "public", name: "orders", repair: "Yes" },
    { schema: "public", name: "orders", sample_percent: 0 },
  ]) {
    expect((await api.request("POST", `${path}/tasks`, { Verify })).status).toBe(422);
  }
  const both = { Verify: { schema: "a", name: "b" }, Snapshot: { schema: "a", name: "b" } };
  expect((await api.request("POST", `${path}/tasks`, both)).status).toBe(422);
  expect((await run("verify", "shop", "orders", "--repair", "maybe")).out).toContain("dry-run or apply");
});
