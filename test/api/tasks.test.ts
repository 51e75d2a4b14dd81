import { beforeEach, describe, expect, test } from "bun:test";
import { claimTask, failTask } from "../../src/connector/task-state.ts";
import { type ApiClient, apiClient, connector } from "./api-client.ts";

const path = "/api/v1/connectors/mine/tasks";
const snapshot = { Snapshot: { schema: "public", name: "orders" } };

let api: ApiClient;
beforeEach(async () => {
  api = apiClient();
  await api.call("POST", "/api/v1/connectors/mine", connector());
});

async function create(body: unknown = snapshot): Promise<string> {
  const answer = await api.call("POST", path, body);
  expect(answer.status).toBe(202);
  return answer.body.id;
}

test("202 with the task and its defaults; an identical request returns the unfinished task", async () => {
  const answer = await api.call("POST", path, snapshot);
  expect(answer.status).toBe(202);
  expect(answer.body).toEqual({
    id: expect.any(String),
    state: "Pending",
    spec: {
      Snapshot: {
        database: "shop",
        schema: "public",
        name: "orders",
        truncate: false,
        force_parallel: false,
      },
    },
    created_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
    attempt: 0,
  });
  expect(await create({ Snapshot: { ...snapshot.Snapshot, truncate: false, database: "shop" } })).toBe(
    answer.body.id,
  );
  expect(await create({ Snapshot: { ...snapshot.Snapshot, truncate: true } })).not.toBe(answer.body.id);
  await api.call("POST", `${path}/${answer.body.id}/cancel`);
  expect(await create()).not.toBe(answer.body.id);
});

test("the list is newest first", async () => {
  const first = await create();
  const second = await create({ Snapshot: { schema: "public", name: "customers" } });
  const answer = await api.call("GET", path);
  expect(answer.status).toBe(200);
  expect(answer.body.map(({ id }: { id: string }) => id)).toEqual([second, first]);
  expect((await api.call("GET", `${path}/${first}`)).body.id).toBe(first);
});

test("404 for unknown connectors and tasks", async () => {
  const id = await create();
  for (const missing of ["nothing", "%00", "x".repeat(300)]) {
    expect((await api.call("GET", `${path}/${missing}`)).body.code).toBe("task_not_found");
    expect((await api.call("POST", `${path}/${missing}/cancel`)).body.code).toBe("task_not_found");
    expect((await api.call("POST", `${path}/${missing}/retry`)).body.code).toBe("task_not_found");
  }
  const other = "/api/v1/connectors/nobody/tasks";
  expect((await api.call("GET", other)).body.code).toBe("connector_not_found");
  expect((await api.call("POST", other, snapshot)).body.code).toBe("connector_not_found");
  expect((await api.call("GET", `${other}/${id}`)).body.code).toBe("connector_not_found");
});

test("422 for an invalid task", async () => {
  for (const body of [
    {},
    { Snapshot: {} },
    { snapshot: {} },
    { Snapshot: { schema: "a", name: "b", rows: 1 } },
  ]) {
    expect((await api.call("POST", path, body)).body.code).toBe("invalid_request");
  }
  const nul = await api.call("POST", path, { Snapshot: { schema: "a\0b", name: "b" } });
  expect(nul.body.errors).toEqual([
    { path: "/Snapshot/schema", message: "holds NUL or half of a surrogate pair" },
  ]);
});

describe("cancel and retry", () => {
  test("cancel: 200, and the same again; 409 once it runs", async () => {
    const id = await create();
    expect((await api.call("POST", `${path}/${id}/cancel`)).body.state).toBe("Cancelled");
    expect(await api.call("POST", `${path}/${id}/cancel`)).toMatchObject({ status: 200, body: { id } });
    const running = await create();
    setTask(running, claimTask);
    expect(await api.call("POST", `${path}/${running}/cancel`)).toMatchObject({
      status: 409,
      body: { code: "conflict" },
    });
  });

  test("retry: a failed task is pending again; 409 for a cancelled one", async () => {
    const id = await create();
    const failure = { reason: "There is no such table.", retryable: false, nowMs: 0, random: 0 };
    setTask(id, (task) => failTask(claimTask(task), failure));
    expect((await api.call("GET", `${path}/${id}`)).body).toMatchObject({ state: "Failed", attempt: 1 });
    expect((await api.call("POST", `${path}/${id}/retry`)).body).toMatchObject({
      state: "Pending",
      attempt: 0,
    });
    await api.call("POST", `${path}/${id}/cancel`);
    expect((await api.call("POST", `${path}/${id}/retry`)).status).toBe(409);
  });
});

function setTask(id: string, change: typeof claimTask): void {
  const tasks = api.services.stored.get("mine")?.tasks ?? [];
  const index = tasks.findIndex((task) => task.id === id);
  const task = tasks[index];
  if (task) tasks[index] = change(task);
}
