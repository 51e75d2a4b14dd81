// What a supervisor holds while leases come and go faster than its runs end.

import { describe, expect, spyOn, test } from "bun:test";
import { claimTask, newTask } from "../../src/connector/task-state.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

test("a lease that is gained and lost while the earlier run ends is not held afterwards", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, supervisor } = runtime;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  supervisor.cut("orders");
  supervisor.hold("orders", 2);
  supervisor.cut("orders");
  await supervisor.giveBack("orders");
  await Bun.sleep(0);
  expect(supervisor.holds("orders")).toBe(false);
});

test("a run that stops in order is cut when its lease is lost meanwhile", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, supervisor } = runtime;
  await connectors.createOrReplace("orders", { ...sampleRequest(), name: "deaf" }, null);
  await waitFor("it to run", () => runtime.lines.join("").includes("begun"));
  const stopped = supervisor.giveBack("orders");
  supervisor.cut("orders");
  await stopped;
  expect(runtime.lines.join("")).not.toContain("did not stop in time");
});

test("of two leases that are gained while the earlier run ends, the later one is held", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, supervisor } = runtime;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  supervisor.cut("orders");
  supervisor.hold("orders", 2);
  supervisor.cut("orders");
  supervisor.hold("orders", 3);
  await supervisor.giveBack("other");
  while (!supervisor.holds("orders")) await Bun.sleep(5);
  expect(supervisor.termOf("orders")).toBe(3);
});

test("a connector that is deleted, and stored again by another replica, does not run here any more", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, state, supervisor } = runtime;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  spyOn(state.tasks, "releaseRunning").mockResolvedValue();
  supervisor.cut("orders");
  supervisor.hold("orders", 2);
  await waitFor("it to run", () => runtime.runs === 2);
  // The notice of the one that is stored again comes while the record is read that is gone.
  spyOn(state.connectors, "find").mockImplementationOnce(async (id) => {
    supervisor.reconcile(id);
    return null;
  });
  supervisor.reconcile("orders");
  await waitFor("it to be given up", () => !supervisor.holds("orders"));
  await Bun.sleep(200);
  expect(runtime.runs).toBe(2);
});

describe("a task", () => {
  const spec = (name: string) => ({
    Snapshot: { database: "shop", schema: "public", name, truncate: false, force_parallel: false },
  });
  const begin = async () => {
    const runtime = await RuntimeFixture.open();
    await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), id: "orders" }, null);
    const untilDone = (id: string) =>
      waitFor("its end", async () => (await runtime.tasks.get("orders", id)).state === "Done");
    return { runtime, untilDone };
  };

  test("that another replica has created runs when its notice was missed", async () => {
    const { runtime, untilDone } = await begin();
    await using _runtime = runtime;
    const { id } = await runtime.tasks.create("orders", spec("first"));
    await untilDone(id);
    const task = newTask(Bun.randomUUIDv7(), spec("second"), Date.now());
    await runtime.state.tasks.create("orders", task);
    runtime.supervisor.reconcileHeld();
    await untilDone(task.id);
  });

  test("that was created or retried runs also when the state's answer was lost", async () => {
    const { runtime, untilDone } = await begin();
    await using _runtime = runtime;
    const { tasks } = runtime.state;
    const lost = () => Promise.reject(new MillraceError("state_unavailable", "Its answer is lost."));
    const create = tasks.create.bind(tasks);
    spyOn(tasks, "create").mockImplementationOnce((...task) => create(...task).then(lost));
    await expect(runtime.tasks.create("orders", spec("first"))).rejects.toThrow("lost");
    const created = await waitFor("it to be stored", async () => (await tasks.list("orders"))[0]);
    await untilDone(created.id);

    const task = newTask(Bun.randomUUIDv7(), spec("second"), Date.now());
    await create("orders", { ...task, state: "Failed" });
    const change = tasks.change.bind(tasks);
    spyOn(tasks, "change").mockImplementationOnce((...changed) => change(...changed).then(lost));
    await expect(runtime.tasks.retry("orders", task.id)).rejects.toThrow("lost");
    await untilDone(task.id);
  });
});

test("one statement releases the tasks of all connectors where no other replica can run any", async () => {
  await using runtime = await RuntimeFixture.open();
  const ids = ["orders", "users", "items"];
  for (const id of ids) await runtime.connectors.createOrReplace(id, sampleRequest(), null);
  await runtime.beginAnew();
  const before = runtime.runs;
  const { tasks } = runtime.state;
  const snapshot = { database: "shop", schema: "public", name: "t", truncate: false, force_parallel: false };
  for (const id of ids) {
    await tasks.create(id, claimTask(newTask(Bun.randomUUIDv7(), { Snapshot: snapshot }, Date.now())));
  }
  const all = spyOn(tasks, "releaseAllRunning");
  // The first try fails, for whichever connectors wait for it.
  all.mockImplementationOnce(() => Promise.reject(new MillraceError("state_unavailable", "It is away.")));
  const single = spyOn(tasks, "releaseRunning");
  await runtime.supervisor.start();
  await waitFor("all to run", () => runtime.runs >= before + ids.length);
  expect(all).toHaveBeenCalledTimes(2);
  expect(await all.mock.results[1]?.value).toBeUndefined();
  expect(single).not.toHaveBeenCalled();
  // Whoever runs them claims them again.
  const left = await Promise.all(ids.map((id) => tasks.list(id)));
  expect(left.map((each) => each.length)).toEqual([1, 1, 1]);
});
