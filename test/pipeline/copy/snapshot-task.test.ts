// What becomes of a task and of its run, between a source and a sink in memory.

import { expect, test } from "bun:test";
import { lsn } from "../../../src/change/lsn.ts";
import { qualifiedName, type TableShape } from "../../../src/change/relation.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { CopyEnvironment } from "../../../src/pipeline/copy/copy-environment.ts";
import { IncrementalCopies } from "../../../src/pipeline/copy/incremental-copies.ts";
import { copyForTask } from "../../../src/pipeline/copy/snapshot-task.ts";
import { ProgressMeter } from "../../../src/pipeline/progress-meter.ts";
import type { OfferedTask } from "../../../src/pipeline/run-reporter.ts";
import type { TaskContext } from "../../../src/pipeline/tasks/task-context.ts";
import { runTaskWithoutStream } from "../../../src/pipeline/tasks/without-stream.ts";
import { UnreadableTables } from "../../../src/pipeline/unreadable-tables.ts";
import { UnprovedTables } from "../../../src/pipeline/verify/unproved-tables.ts";
import type { CopyMode, StreamDuring } from "../../../src/sink/copy-sink.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { eventsTo, nothingTold } from "../../support/contract/bench.ts";
import { memorySink } from "../../support/contract/memory-sink.ts";
import { MemoryStore } from "../../support/contract/memory-store.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import { copyEnvironment, runningStream } from "../../support/pipeline/scripted-copy.ts";
import { unwatchedStates } from "../../support/pipeline/unwatched-states.ts";

const never = new AbortController().signal;

class Rig implements Disposable {
  readonly source = new MemorySource();
  readonly log: string[] = [];
  readonly outcomes: unknown[] = [];
  readonly begun: (readonly [CopyMode, StreamDuring])[] = [];
  readonly sink: Sink;
  readonly environment: CopyEnvironment;
  readonly around: TaskContext;
  readonly first: IncrementalCopies;
  copyBlocker: MillraceError | null = null;
  /** Whether rows are incomplete, each time that is asked. */
  readonly incomplete: boolean[] = [];
  readonly #store = new MemoryStore();
  readonly #meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  readonly #unreadable = new UnreadableTables();

  constructor() {
    this.sink = memorySink(this.#store, { signal: never, events: eventsTo(nothingTold(), () => {}) });
    const { copies } = this.sink;
    const begin: typeof copies.begin = (table, mode, stream, stop) => {
      this.begun.push([mode, stream]);
      return copies.begin(table, mode, stream, stop);
    };
    const watched = { begin, rowsForm: () => "text" as const, takeRows: copies.takeRows.bind(copies) };
    this.environment = copyEnvironment(this.source, watched, runningStream(this.log));
    this.first = new IncrementalCopies(unwatchedStates, { reportMeanwhile() {} }, this.#unreadable);
    this.around = {
      listTables: () => this.listTables(),
      currentTables: () => this.listTables(),
      copies: {
        idOf: () => null,
        tables: [],
        wasIncomplete: () => this.incomplete.shift() ?? false,
        unreadable: this.#unreadable,
        unproved: new UnprovedTables({
          meter: this.#meter,
          states: unwatchedStates,
          reporter: { warn() {} },
        }),
      },
      copyBlocker: () => this.copyBlocker,
      first: this.first,
      whileWaiting: (_, copy) => copy(),
    };
  }

  /** A table with this row at the sink, from a first copy. */
  static async with(id: number, key = [0]): Promise<Rig> {
    const rig = new Rig();
    const table = rig.source.add("t", [[id, "v"]], key);
    await rig.sink.open();
    await rig.sink.begin({ resumeLsn: lsn(1n), partial: null, lastVersion: 0n });
    await rig.listTables();
    const task = rig.task("t", false);
    await runTaskWithoutStream(rig.environment, task, rig.around.listTables, never);
    for (const list of [rig.outcomes, rig.begun, rig.log]) list.splice(0);
    rig.source.reads.splice(0);
    expect(rig.held(table)).toEqual([id]);
    return rig;
  }

  async listTables(): Promise<readonly TableShape[]> {
    const tables = await this.source.tables();
    await this.sink.prepare(tables, ["text"]);
    return tables;
  }

  task(name: string, truncate: boolean): OfferedTask {
    return {
      id: "1",
      spec: { Snapshot: { database: "db", schema: "public", name, truncate, force_parallel: false } },
      claim: async () => true,
      progress: () => {},
      done: () => this.outcomes.push("done"),
      failed: (error) => this.outcomes.push(error),
    };
  }

  held({ relation }: TableShape): readonly number[] {
    const rows = this.#store.held.tables.get(qualifiedName(relation))?.rows.values() ?? [];
    return [...rows].map(({ id }) => Number(id)).toSorted((a, b) => a - b);
  }

  [Symbol.dispose](): void {
    this.#meter[Symbol.dispose]();
    this.#unreadable[Symbol.dispose]();
  }
}

test("a run that is told to stop ends as stopped, whatever its task failed of meanwhile, and the task has no outcome", async () => {
  using rig = new Rig();
  const stop = new AbortController();
  const stoppedMeanwhile = async () => {
    stop.abort(new Error("stopped"));
    return [];
  };
  const run = runTaskWithoutStream(rig.environment, rig.task("gone", false), stoppedMeanwhile, stop.signal);
  expect(await run.catch((error: unknown) => error)).toBe(stop.signal.reason);
  expect(rig.outcomes).toEqual([]);
});

test.each([
  [false, "merge", [1, 2]],
  [true, "replace", [2]],
] as const)(
  "beside the stream a table is copied as of points that it has passed (truncate: %p)",
  async (truncate, mode, wanted) => {
    using rig = await Rig.with(1);
    const [table] = await rig.source.tables();
    rig.source.set("t", [[2, "v"]]);
    await copyForTask(rig.environment, rig.around, rig.task("t", truncate), never);
    expect(rig.held(table!)).toEqual([...wanted]);
    expect(rig.begun).toEqual([[mode, "runs"]]);
    const [read] = rig.source.reads;
    expect(rig.log).toContain(`passed ${read?.lsn}`);
    expect(rig.source.openPoints).toBe(0);
  },
);

test("a table with incomplete rows is copied when none is left behind a point that the stream has passed", async () => {
  using rig = await Rig.with(1);
  const { copies } = rig.sink;
  const begin: typeof copies.begin = async (...options) => {
    const copy = await copies.begin(...options);
    return { ...copy, finish: async () => ((await copy.finish()) === "all" ? "incomplete" : "more") };
  };
  const sink = { ...rig.environment.sink, copies: { ...rig.environment.sink.copies, begin } };
  rig.incomplete.push(true);
  let looks = 0;
  const listTables = async () => {
    looks++;
    return await rig.listTables();
  };

  await copyForTask({ ...rig.environment, sink }, { ...rig.around, listTables }, rig.task("t", false), never);
  // To find the table, with the end of the copy, and twice behind it: the first time rows were incomplete again.
  expect([looks, rig.incomplete]).toEqual([4, []]);
  const passed = rig.log.filter((line) => line.startsWith("passed"));
  expect(passed.length).toBe(4);
});

test("a table whose sink has the stream wait is copied between two batches, as of one point", async () => {
  using rig = await Rig.with(1, []);
  const [table] = await rig.source.tables();
  rig.source.set("t", [[2, "v"]]);
  await copyForTask(rig.environment, rig.around, rig.task("t", true), never);
  expect(rig.held(table!)).toEqual([2]);
  expect(rig.log).toEqual(["[", "]", "[", "]"]);
  expect(rig.source.openPoints).toBe(0);
});

test("without a stream the table is copied while nothing else goes on", async () => {
  using rig = await Rig.with(1);
  const [table] = await rig.source.tables();
  rig.source.set("t", [[2, "v"]]);
  await runTaskWithoutStream(rig.environment, rig.task("t", true), rig.around.listTables, never);
  expect([rig.outcomes, rig.begun]).toEqual([["done"], [["replace", "waits"]]]);
  expect(rig.held(table!)).toEqual([2]);
  expect(rig.log).toEqual([]);
});

test("it waits for the table's first copy, and is begun when that is made", async () => {
  using rig = await Rig.with(1);
  const [table] = await rig.source.tables();
  const copy = await rig.sink.copies.begin(table!, "merge", "waits", never);
  rig.first.begin([{ table: table!, copy }]);
  const copied = copyForTask(rig.environment, rig.around, rig.task("t", false), never);
  await new Promise((resolve) => setImmediate(resolve));
  expect(rig.begun).toEqual([]);
  rig.first.made(table!);
  await copied;
  expect(rig.begun).toEqual([["merge", "runs"]]);
});

test("a table that is not there, is another database's, or would miss changes fails it", async () => {
  using rig = await Rig.with(1);
  const { environment, around } = rig;
  const outcomeOf = (task: OfferedTask) =>
    copyForTask(environment, around, task, never).catch((error: unknown) => error);
  expect(await outcomeOf(rig.task("gone", false))).toMatchObject({ code: "table_unavailable" });
  const { spec, ...rest } = rig.task("t", false);
  const elsewhere = { ...rest, spec: { Snapshot: { ...spec.Snapshot!, database: "other" } } };
  expect(await outcomeOf(elsewhere)).toMatchObject({ code: "table_unavailable" });
  rig.copyBlocker = new MillraceError("table_locked", "Somebody holds it.");
  expect(await outcomeOf(rig.task("t", false))).toBe(rig.copyBlocker);
  expect(rig.begun).toEqual([]);
});

test.each(["Verify", "Replay"] as const)("without a stream there is no %s", async (kind) => {
  using rig = await Rig.with(1);
  const table = { database: "db", schema: "public", name: "t" };
  const spec = kind === "Verify" ? { Verify: { ...table, repair: "None" as const } } : { Replay: table };
  const task = { ...rig.task("t", false), spec };
  await runTaskWithoutStream(rig.environment, task, rig.around.listTables, never);
  expect(rig.outcomes).toMatchObject([{ code: "unsupported_kind" }]);
});

test("what its source failed of is told, not what the sink made of it", async () => {
  using rig = await Rig.with(1);
  const denied = new MillraceError("source_permission_denied", "It may not be read.");
  rig.source.failures.set("t", denied);
  const copied = copyForTask(rig.environment, rig.around, rig.task("t", false), never);
  const { code, message } = denied;
  expect(await copied.catch((error: unknown) => error)).toMatchObject({ code, message });
  expect(rig.source.openPoints).toBe(0);
});
