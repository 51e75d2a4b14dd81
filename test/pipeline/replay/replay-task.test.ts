// What a replay asks of its sink, between a source and a sink that are written down.

import { expect, test } from "bun:test";
import type { RowKey } from "../../../src/change/copy-part.ts";
import type { CopyEnvironment } from "../../../src/pipeline/copy/copy-environment.ts";
import { replayForTask } from "../../../src/pipeline/replay/replay-task.ts";
import type { OfferedTask } from "../../../src/pipeline/run-reporter.ts";
import type { TaskContext } from "../../../src/pipeline/tasks/task-context.ts";
import type { ReplayOf, ReplaySink, TableReplay } from "../../../src/sink/replay-sink.ts";
import type { KeySource } from "../../../src/source/key-source.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import { copyEnvironment, runningStream, scriptedCopy } from "../../support/pipeline/scripted-copy.ts";

const never = new AbortController().signal;
const spec = { database: "db", schema: "public", name: "t" };

/** `left`: what the sink says is left, each time that it is asked. */
function rig(left: (readonly RowKey[])[] = [], firstCopies: boolean[] = []) {
  const log: string[] = [];
  const begun: ReplayOf[] = [];
  const progress: number[] = [];
  const source = new MemorySource();
  source.add("t", [[1, "v"]], [0]);
  const scripted = scriptedCopy(log, {
    async take(chunk) {
      for await (const _ of chunk.chunks);
      log.push(`take ${chunk.part?.kind === "rows" ? chunk.part.keys.join() : "all"} at ${chunk.lsn}`);
      chunk.progress(2, 10);
    },
  });
  const replay: TableReplay = { ...scripted, left: async () => left.shift() ?? [] };
  const replays: ReplaySink = {
    begin: async (_, of) => {
      begun.push(of);
      return replay;
    },
  };
  const made = copyEnvironment(source, undefined as never, runningStream(log));
  const environment: CopyEnvironment = { ...made, sink: { ...made.sink, replays } };
  const context = {
    currentTables: () => source.tables(),
    copies: { wasIncomplete: () => false, unreadable: { waitingFor: () => null } },
    copyBlocker: () => null,
    first: { ended: async () => void log.push("waits"), isUnderWay: () => firstCopies.shift() ?? false },
  } as unknown as TaskContext;
  const task: OfferedTask = {
    id: "task",
    spec: { Replay: spec },
    claim: async () => true,
    done: () => {},
    failed: () => {},
    progress: (rows) => progress.push(rows),
  };
  return { log, begun, progress, source, environment, context, task };
}

test("a table is sent whole, as of a point that the stream has passed, under the task's id", async () => {
  const { environment, context, task, begun, log } = rig();
  const result = await replayForTask(environment, context, task, spec, never);
  expect(begun).toEqual([{ id: "task", keys: null }]);
  const taken = log.find((line) => line.startsWith("take all at "));
  const point = taken?.split(" ").at(-1);
  expect(log).toContain(`passed ${point}`);
  expect(result).toMatchObject({ rows: 2, missing: [] });
  expect(result.as_of_lsn).toMatch(/\//);
  expect(log.at(-1)).toBe("dispose");
});

test("rows that came in part are taken again, at later points, until none is left, and counted with the others", async () => {
  const { environment, context, task, log, progress } = rig([[["1"], ["2"]], [["2"]]]);
  const result = await replayForTask(environment, context, task, spec, never);
  const taken = log.filter((line) => line.startsWith("take"));
  expect(taken.map((line) => line.replace(/ at .*/, ""))).toEqual(["take all", "take 1,2", "take 2"]);
  const points = taken.map((line) => Number(line.split(" ").at(-1)));
  expect(points).toEqual(points.toSorted((a, b) => a - b));
  expect(new Set(points).size).toBe(3);
  expect(progress).toEqual([2, 4, 6]);
  expect(result.rows).toBe(6);
});

test("rows that are changed again and again end the attempt, which is made anew", async () => {
  const { environment, context, task } = rig(Array.from({ length: 30 }, () => [["1"]]));
  const failed = await replayForTask(environment, context, task, spec, never).catch(
    (error: unknown) => error,
  );
  expect(failed).toMatchObject({ code: "table_changed", retry: "transient" });
});

test("a first copy that begins meanwhile is waited for", async () => {
  const { environment, context, task, log, begun } = rig([], [true]);
  await replayForTask(environment, context, task, spec, never);
  expect(begun).toHaveLength(1);
  expect(log.filter((line) => line === "waits")).toHaveLength(2);
});

test("a key is sent once, and those without a row are told as they were given", async () => {
  const { environment, context, task, source, begun, log } = rig();
  const keys: KeySource = {
    read: async (_, texts) => texts.map(([text = ""]) => [text.trim()]),
    missing: async () => new Set([1]),
  };
  Object.assign(source, { keys });
  const given = [{ id: "1" }, { id: " 1" }, { id: "9 " }, { id: "2" }];
  const result = await replayForTask(environment, context, task, { ...spec, keys: given }, never);
  expect(begun).toEqual([{ id: "task", keys: [["1"], ["9"], ["2"]] }]);
  expect(log.some((line) => line.startsWith("take 1,9,2 at "))).toBe(true);
  expect(result.missing).toEqual([{ id: "9 " }]);
});

test("a Postgres sink is sent nothing again", async () => {
  const { environment, context, task } = rig();
  const { replays: _, ...sink } = environment.sink;
  const failed = await replayForTask({ ...environment, sink }, context, task, spec, never).catch(String);
  expect(failed).toContain("Verify task with repair Apply");
});
