// Which events the changes of other replicas make.

import { expect, test } from "bun:test";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import type { Task } from "../../../src/connector/task.ts";
import { ChangeFollower } from "../../../src/runtime/replicas/change-follower.ts";
import { ManualClock } from "../../support/manual-clock.ts";

interface Stored {
  readonly id: string;
  readonly given: ConnectorRequest;
  readonly createdAt: Date;
}

const stored = (id: string, name: string, createdMs = 1): Stored => ({
  id,
  given: { name } as unknown as ConnectorRequest,
  createdAt: new Date(createdMs),
});

const task = (id: string, state: Task["state"], rows = 0): Task => ({
  id,
  state,
  spec: {},
  created_at: new Date(0).toISOString(),
  attempt: 0,
  progress: { rows, bytes: 0, estimated_rows: 0 },
});

async function rig(...initial: Stored[]) {
  const clock = new ManualClock();
  const connectors = new Map(initial.map((connector) => [connector.id, connector]));
  const tasks = new Map<string, Task>();
  const state = { isAway: false, reads: 0 };
  const told: string[] = [];
  const read = async <Result>(result: Result): Promise<Result> => {
    state.reads += 1;
    if (state.isAway) throw new Error("away");
    return result;
  };
  const follower = new ChangeFollower({
    connectors: {
      list: () => read([...connectors.values()]),
      find: (id) => read(connectors.get(id) ?? null),
    },
    tasks: { find: (_, id) => read(tasks.get(id) ?? null) },
    events: {
      connectorKnown: () => {},
      connectorCreated: (id) => told.push(`created ${id}`),
      connectorChanged: (id) => told.push(`changed ${id}`),
      taskChanged: (_, { id, state: now }) => told.push(`${id} ${now}`),
      taskProgressed: (_, { id, progress }) => told.push(`${id} at ${progress?.rows}`),
    },
    missed: () => told.push("missed"),
    gone: (id) => told.push(`gone ${id}`),
    log: { warn: () => {} },
    schedule: clock.schedule,
  });
  await follower.start();
  const about = async (connector: string) => {
    follower.noticed({ what: "connector", connector });
    await clock.pass(0);
  };
  const aboutTask = async (id: string) => {
    follower.noticed({ what: "task", connector: "orders", task: id });
    await clock.pass(0);
  };
  return { clock, follower, connectors, tasks, state, about, aboutTask, told: () => told.splice(0) };
}

test("what was there is no event, and neither is a change of what clients do not see", async () => {
  const { about, told } = await rig(stored("orders", "a"));
  await about("orders");
  expect(told()).toEqual([]);
});

test("a connector that others make, change or delete is an event, once", async () => {
  const { about, connectors, told } = await rig();
  connectors.set("orders", stored("orders", "a"));
  await about("orders");
  await about("orders");
  expect(told()).toEqual(["created orders"]);
  connectors.set("orders", stored("orders", "b"));
  await about("orders");
  await about("orders");
  expect(told()).toEqual(["changed orders"]);
  connectors.delete("orders");
  await about("orders");
  await about("orders");
  await about("never");
  expect(told()).toEqual(["gone orders"]);
});

test("another connector under the same id is one that went and one that came", async () => {
  const { about, connectors, told } = await rig(stored("orders", "a", 1));
  connectors.set("orders", stored("orders", "a", 2));
  await about("orders");
  expect(told()).toEqual(["gone orders", "created orders"]);
});

test("what this replica has changed hides no change of another one", async () => {
  const { about, connectors, follower, told } = await rig(stored("orders", "a"));
  follower.connectorChanged("orders");
  follower.connectorCreated("events");
  connectors.set("orders", stored("orders", "c"));
  connectors.set("events", stored("events", "a"));
  await about("orders");
  await about("events");
  expect(told()).toEqual(["changed orders", "changed events"]);
  follower.forget("orders");
  connectors.delete("orders");
  await about("orders");
  expect(told()).toEqual([]);
});

test("a task's changes are told apart from its progress", async () => {
  const { aboutTask, tasks, told } = await rig(stored("orders", "a"));
  for (const next of [task("t", "Pending"), task("t", "Running"), task("t", "Running", 5)]) {
    tasks.set("t", next);
    await aboutTask("t");
  }
  tasks.set("t", task("t", "Done", 9));
  await aboutTask("t");
  tasks.set("t", task("t", "Pending"));
  await aboutTask("t");
  expect(told()).toEqual(["t Pending", "t Running", "t at 5", "t Done", "t Pending"]);
  await aboutTask("unknown");
  expect(told()).toEqual([]);
});

test("notices that come while the state is away are worked off later, each thing once", async () => {
  const { clock, about, aboutTask, connectors, tasks, state, told } = await rig(stored("orders", "a"));
  state.isAway = true;
  connectors.set("orders", stored("orders", "b"));
  tasks.set("t", task("t", "Running"));
  for (let n = 0; n < 3; n++) {
    await about("orders");
    await aboutTask("t");
  }
  await clock.pass(3_000);
  expect(told()).toEqual([]);
  state.isAway = false;
  await clock.pass(1_000);
  expect(told().sort()).toEqual(["changed orders", "t Running"]);
  expect(clock.timers).toBe(0);
});

test("where notices were missed, what is gone is forgotten, and clients read everything again", async () => {
  const { clock, follower, connectors, told } = await rig(stored("orders", "a"), stored("events", "a"));
  connectors.delete("events");
  connectors.set("more", stored("more", "a"));
  follower.noticed({ what: "missed" });
  await clock.pass(0);
  expect(told()).toEqual(["gone events", "missed"]);
});

test("after its end nothing is read", async () => {
  const { clock, follower, state } = await rig(stored("orders", "a"));
  await follower[Symbol.asyncDispose]();
  const before = state.reads;
  follower.noticed({ what: "missed" });
  await clock.pass(5_000);
  expect(state.reads).toBe(before);
});
