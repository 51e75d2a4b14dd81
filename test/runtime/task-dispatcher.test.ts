// One connector's tasks when the run ends or the store fails at the wrong moment: no task stays Running without a
// runner.

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Task } from "../../src/connector/task.ts";
import { cancelTask, newTask } from "../../src/connector/task-state.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import type { RunAttempt } from "../../src/runtime/run/connector-run.ts";
import { TaskDispatcher } from "../../src/runtime/task-dispatcher.ts";
import type { TaskStore } from "../../src/state/stores/task-store.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

let runtime: RuntimeFixture;
let store: TaskStore;
let taskId: string;
let count = 0;
const failedTasks: string[] = [];

beforeAll(async () => {
  runtime = await RuntimeFixture.open();
  await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), disabled: true }, null);
  store = runtime.state.tasks;
});

afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

beforeEach(async () => {
  for (const { id } of await store.pending("orders", Date.now())) {
    await store.change("orders", id, (task) => ({ ...task, state: "Cancelled" }));
  }
  count += 1;
  const Snapshot = {
    database: "shop",
    schema: "public",
    name: `t${count}`,
    truncate: false,
    force_parallel: false,
  };
  taskId = (await store.create("orders", newTask(Bun.randomUUIDv7(), { Snapshot }, Date.now()))).id;
});

/** A dispatcher over a store. `change` replaces methods of the store. */
function dispatcherOver(change: Partial<TaskStore>): TaskDispatcher {
  const methods: TaskStore = Object.assign(Object.create(store) as TaskStore, {
    pending: store.pending.bind(store),
    change: store.change.bind(store),
    saveProgress: store.saveProgress.bind(store),
    find: store.find.bind(store),
    ...change,
  });
  const sleep = () => new Promise<void>((resolve) => setTimeout(resolve, 5));
  return new TaskDispatcher("orders", {
    store: methods,
    term: null,
    log: runtime.log,
    nowMs: Date.now,
    random: () => 0,
    sleep,
    onTaskWaiting: () => {},
    onVerified: () => {},
    onTaskFailed: (task) => void failedTasks.push(task.id),
  });
}

function attempt(): RunAttempt & { readonly offers: string[]; readonly cancelled: string[] } {
  const offers: string[] = [];
  const cancelled: string[] = [];
  return {
    offers,
    cancelled,
    ended: new Promise(() => {}),
    stop: () => {},
    cut: () => {},
    offerTask: (id) => void offers.push(id),
    cancelTask: (id) => void cancelled.push(id),
  };
}

const stored = async () => (await store.find("orders", taskId)) as Task;

test("a run that ends while its claim is being stored leaves the task pending", async () => {
  const reached = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const dispatcher = dispatcherOver({
    change: async (...args) => {
      const task = await store.change(...args);
      reached.resolve();
      await goOn.promise;
      return task;
    },
  });
  dispatcher.attach(attempt());
  const claimed = dispatcher.claim(taskId);
  await reached.promise;
  dispatcher.detach(null);
  const next = attempt();
  dispatcher.attach(next);
  goOn.resolve();
  expect(await claimed).toBe(false);
  await waitFor("it is offered to the next run", () => next.offers.includes(taskId));
  expect((await stored()).state).toBe("Pending");
  expect(await dispatcher.claim(taskId)).toBe(true);
  await dispatcher.close();
});

test("a comparison that runs and is cancelled ends at its run, and what that still tells is not heard", async () => {
  const Verify = { database: "shop", schema: "public", name: "v", repair: "None" as const };
  const { id } = await store.create("orders", newTask(Bun.randomUUIDv7(), { Verify }, Date.now()));
  const dispatcher = dispatcherOver({});
  const run = attempt();
  dispatcher.attach(run);
  expect(await dispatcher.claim(id)).toBe(true);
  expect(dispatcher.load.running).toBe(1);
  await store.change("orders", id, cancelTask);
  dispatcher.dispatch();
  await waitFor("the run hears of it", () => run.cancelled.includes(id));
  dispatcher.failed(id, new MillraceError("internal", "broken off"));
  dispatcher.detach(null);
  await dispatcher.close();
  expect((await store.find("orders", id))?.state).toBe("Cancelled");
});

test.each([true, false])(
  "a claim that the store did not answer (made there: %p) is made again",
  async (isMade) => {
    let isAway = true;
    const dispatcher = dispatcherOver({
      change: async (...args) => {
        const task = isAway && !isMade ? null : await store.change(...args);
        if (isAway) throw new MillraceError("state_unavailable", "The state store failed.");
        return task;
      },
    });
    const run = attempt();
    dispatcher.attach(run);
    await waitFor("the first offer", () => run.offers.length === 1);
    expect(await dispatcher.claim(taskId)).toBe(false);
    isAway = false;
    await waitFor("the second offer", () => run.offers.length === 2);
    expect(await dispatcher.claim(taskId)).toBe(true);
    dispatcher.done(taskId, null);
    await dispatcher.close();
    expect((await stored()).state).toBe("Done");
  },
);

test("all pending tasks are looked through once for many that have come, and not for each that is done", async () => {
  let looks = 0;
  const dispatcher = dispatcherOver({
    pending: (...args) => {
      looks += 1;
      return store.pending(...args);
    },
  });
  const run = attempt();
  dispatcher.attach(run);
  for (let times = 0; times < 100; times++) dispatcher.dispatch();
  await waitFor("the offer", () => run.offers.length === 1);
  await dispatcher.claim(taskId);
  dispatcher.done(taskId, null);
  await dispatcher.close();
  expect(looks).toBeLessThanOrEqual(2);
  expect((await stored()).state).toBe("Done");
});

test("of many tasks the oldest hundred are offered, and the others as those leave; one that waits for its next attempt is behind", async () => {
  const early = new Date(Date.now() + 60_000).toISOString();
  await store.change("orders", taskId, (task) => ({ ...task, next_attempt_at: early }));
  const ids: string[] = [];
  for (let at = 0; at < 160; at++) {
    const Snapshot = {
      database: "shop",
      schema: "many",
      name: `t${at}`,
      truncate: false,
      force_parallel: false,
    };
    const task = newTask(Bun.randomUUIDv7(), { Snapshot }, Date.now());
    ids.push((await store.create("orders", task)).id);
  }
  const dispatcher = dispatcherOver({});
  const run = attempt();
  dispatcher.attach(run);
  await waitFor("the first offers", () => run.offers.length > 0);
  expect(run.offers).toEqual(ids.slice(0, 100));
  for (const id of ids) {
    await waitFor("its offer", () => run.offers.includes(id));
    // A task that was cancelled is refused, and makes room as one that was done does.
    if (Number(ids.indexOf(id)) % 2 === 0) await store.change("orders", id, cancelTask);
    if (await dispatcher.claim(id)) dispatcher.done(id, null);
  }
  expect(run.offers).toEqual(ids);
  await dispatcher.close();
});

test("an end that is stored twice, because the first response was lost, is not an error", async () => {
  let changes = 0;
  const dispatcher = dispatcherOver({
    change: async (...args) => {
      const task = await store.change(...args);
      changes += 1;
      if (changes === 2) throw new MillraceError("state_unavailable", "The state store failed.");
      return task;
    },
  });
  dispatcher.attach(attempt());
  await dispatcher.claim(taskId);
  dispatcher.done(taskId, null);
  await waitFor("the second try", () => changes === 3);
  await dispatcher.close();
  expect((await stored()).state).toBe("Done");
  expect(runtime.lines.join("")).not.toContain("could not be kept");
});

test("a task's end includes the last of its progress, even if both arrive at once", async () => {
  const dispatcher = dispatcherOver({});
  dispatcher.attach(attempt());
  await dispatcher.claim(taskId);
  dispatcher.progress(taskId, { rows: 1, bytes: 10, estimated_rows: 5 });
  dispatcher.progress(taskId, { rows: 5, bytes: 50, estimated_rows: 5 });
  dispatcher.done(taskId, null);
  await dispatcher.close();
  expect(await stored()).toMatchObject({
    state: "Done",
    progress: { rows: 5, bytes: 50, estimated_rows: 5 },
  });
});

test("while the store is unavailable, progress reports do not pile up", async () => {
  let saves = 0;
  const dispatcher = dispatcherOver({
    saveProgress: async () => {
      saves += 1;
    },
  });
  dispatcher.attach(attempt());
  await dispatcher.claim(taskId);
  for (let rows = 1; rows <= 1_000; rows++)
    dispatcher.progress(taskId, { rows, bytes: rows, estimated_rows: rows });
  dispatcher.done(taskId, null);
  await dispatcher.close();
  expect(saves).toBeLessThanOrEqual(1);
  expect((await stored()).progress?.rows).toBe(1_000);
});

test("a task that has failed for good is told once, also when the store's answer to it was lost", async () => {
  let isLost = true;
  const dispatcher = dispatcherOver({
    change: async (connectorId, id, decide) => {
      const task = await store.change(connectorId, id, decide);
      if (task?.state === "Failed" && isLost) {
        isLost = false;
        throw new MillraceError("state_unavailable", "The answer was lost.");
      }
      return task;
    },
  });
  dispatcher.attach(attempt());
  await dispatcher.claim(taskId);
  dispatcher.failed(taskId, new MillraceError("source_unreachable", "Nothing answers."));
  await waitFor("it is tried again", async () => (await stored()).next_attempt_at !== undefined);
  expect(failedTasks).toEqual([]);
  await store.change("orders", taskId, ({ next_attempt_at: _, ...task }) => task);
  await dispatcher.claim(taskId);
  dispatcher.failed(taskId, new MillraceError("table_unavailable", "There is no such table."));
  await waitFor("the failure is told", () => failedTasks.length > 0);
  await dispatcher.close();
  expect(failedTasks).toEqual([taskId]);
  expect((await stored()).state).toBe("Failed");
});

test("an end is told once, though what is due next cannot be listed at that moment", async () => {
  let isAway = false;
  const dispatcher = dispatcherOver({
    pending: async (...asked) => {
      if (!isAway) return store.pending(...asked);
      isAway = false;
      throw new MillraceError("state_unavailable", "The state is away.");
    },
  });
  dispatcher.attach(attempt());
  await dispatcher.claim(taskId);
  isAway = true;
  dispatcher.failed(taskId, new MillraceError("table_unavailable", "There is no such table."));
  await waitFor("what is due to be listed", () => !isAway);
  await dispatcher.close();
  expect(failedTasks.filter((id) => id === taskId)).toEqual([taskId]);
});
