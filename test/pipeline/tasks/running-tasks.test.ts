// What a run does beside its stream: which work comes first, and which tasks wait for it.

import { expect, test } from "bun:test";
import type { TableShape } from "../../../src/change/relation.ts";
import type { OfferedTask } from "../../../src/pipeline/run-reporter.ts";
import { RunningTasks } from "../../../src/pipeline/tasks/running-tasks.ts";
import { TaskQueue } from "../../../src/pipeline/tasks/task-queue.ts";

/** OIDs by name. */
type Names = Map<string, number>;

const table = (id: number) => ({ relation: { id } }) as TableShape;

function running(names: Names = new Map()): RunningTasks {
  return new RunningTasks({
    tasks: new TaskQueue(),
    stop: new AbortController().signal,
    limit: 2,
    work: async () => undefined,
    idOf: ({ name }) => names.get(name) ?? null,
    ended: () => {},
    failed: () => {},
  });
}

function task(name: string): OfferedTask {
  const Snapshot = { database: "d", schema: "public", name, truncate: false, force_parallel: false };
  const told = { progress() {}, done() {}, failed() {} };
  return { id: name, spec: { Snapshot }, claim: async () => true, ...told };
}

test("copies come before proofs that wait", async () => {
  await using work = running();
  const order: string[] = [];
  const first = Promise.withResolvers<void>();
  const all = Promise.withResolvers<void>();
  const note = (name: string) => async () => {
    order.push(name);
    if (name === "proof 1") await first.promise;
    if (order.length === 5) all.resolve();
  };
  work.startOwn("proof", [table(1)], note("proof 1"));
  work.startOwn("proof", [table(2)], note("proof 2"));
  work.startOwn("copies", [table(3)], note("copies 3"));
  work.startOwn("proof", [table(4)], note("proof 4"));
  work.startOwn("copies", [table(5)], note("copies 5"));
  first.resolve();
  await all.promise;
  expect(order).toEqual(["proof 1", "copies 3", "copies 5", "proof 2", "proof 4"]);
});

test("tasks wait for work on their table, whatever its name is now, and not for work on one that had it before", async () => {
  const names: Names = new Map([
    ["a", 1],
    ["b", 2],
  ]);
  await using work = running(names);
  const held = Promise.withResolvers<void>();
  work.startOwn("proof", [table(1)], () => held.promise);
  expect(["a", "b", "unknown"].map((name) => work.mayRun(task(name)))).toEqual([false, true, true]);
  names.set("a", 2).set("b", 1);
  expect(["a", "b"].map((name) => work.mayRun(task(name)))).toEqual([true, false]);
  expect([work.isProving(table(1)), work.isProving(table(2))]).toEqual([true, false]);
  held.resolve();
});

test("a table has one task at a time, under any of its names", async () => {
  const names: Names = new Map([["a", 1]]);
  await using work = running(names);
  work.start(task("a"));
  names.delete("a");
  names.set("b", 1);
  expect(work.mayRun(task("b"))).toBe(false);
});

test("a table whose OID the run hears of while a task of it runs still has one task at a time", async () => {
  const names: Names = new Map();
  await using work = running(names);
  work.start(task("new"));
  names.set("new", 7);
  expect(work.mayRun(task("new"))).toBe(false);
  names.set("also", 7);
  expect(work.mayRun(task("also"))).toBe(false);
  names.set("other", 8);
  expect(work.mayRun(task("other"))).toBe(true);
});

test("while as many tasks run as may, the tables of those that wait are not looked up", async () => {
  let lookUps = 0;
  const names: Names = new Map();
  names.get = () => ++lookUps;
  await using work = running(names);
  for (const name of ["a", "b"]) work.start(task(name));
  lookUps = 0;
  expect(work.mayRun(task("c"))).toBe(false);
  expect(lookUps).toBe(0);
});
