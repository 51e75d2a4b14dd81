import { expect, test } from "bun:test";
import { BatchBuilder, emptyBatch } from "../../src/change/batch-builder.ts";
import { type ChangeBatch, ChangeKind } from "../../src/change/change-batch.ts";
import { type Lsn, lsn } from "../../src/change/lsn.ts";
import type { OfferedTask } from "../../src/pipeline/run-reporter.ts";
import { StreamEvents } from "../../src/pipeline/stream-events.ts";
import { TaskQueue } from "../../src/pipeline/tasks/task-queue.ts";
import type { ChangeStream } from "../../src/source/change-stream.ts";
import type { Source } from "../../src/source/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** A stream that is caught up when told, and gives batches when told. */
function stage() {
  const caughtUp = Promise.withResolvers<void>();
  const tables = Promise.withResolvers<void>();
  const ready: ChangeBatch[] = [];
  let asked: PromiseWithResolvers<ChangeBatch> | null = null;
  const reached: Lsn[] = [];
  const stream: Pick<ChangeStream, "next" | "caughtUp" | "reach"> = {
    caughtUp: caughtUp.promise,
    reach: (at) => reached.push(at),
    next: () => {
      asked = Promise.withResolvers();
      const batch = ready.shift();
      const { promise } = asked;
      if (batch) {
        asked.resolve(batch);
        asked = null;
      }
      return promise;
    },
  };
  const source: Pick<Source, "tablesChanged"> = { tablesChanged: () => tables.promise };
  const tasks = new TaskQueue();
  const stop = new AbortController();
  const events = new StreamEvents(stream as ChangeStream, source as Source, tasks, stop.signal);
  const give = (batch: ChangeBatch) => {
    if (asked) asked.resolve(batch);
    else ready.push(batch);
    asked = null;
  };
  return {
    events,
    tasks,
    stop,
    give,
    caughtUp,
    tables,
    reached,
    refuse: (error: unknown) => asked?.reject(error),
  };
}

/** One change in each transaction, which commits there. */
function batchOf(...commits: readonly bigint[]): ChangeBatch {
  const builder = new BatchBuilder("text", lsn(1n));
  for (const at of commits) {
    builder.begin(at, 0n, 7);
    builder.add(ChangeKind.truncate, 0, 0, 0, 0, 0, 0, 0);
    builder.commit(lsn(at + 1n));
  }
  return builder.takeComplete().batch;
}

const task: OfferedTask = {
  id: "1",
  spec: { Snapshot: { database: "d", schema: "s", name: "t", truncate: false, force_parallel: false } },
  claim: async () => true,
  progress: () => {},
  done: () => {},
  failed: () => {},
};

test("tasks and new tables wait until the stream has caught up, and for the end of a transaction", async () => {
  const { events, tasks, give, caughtUp, tables } = stage();
  tasks.offer("1", task);
  tables.resolve();
  give(emptyBatch("text", lsn(1n)));
  expect((await events.next(true)).type).toBe("batch");
  caughtUp.resolve();
  await Bun.sleep(0);
  give(emptyBatch("text", lsn(2n)));
  expect((await events.next(false)).type).toBe("batch");
  expect((await events.next(true)).type).toBe("task");
  expect((await events.next(true)).type).toBe("tables");
});

test("a batch that is there comes before tables that are to be read once more", async () => {
  const { events, give, caughtUp } = stage();
  caughtUp.resolve();
  await Bun.sleep(0);
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) {
    events.refreshTables();
    if (i === 1) give(emptyBatch("text", lsn(1n)));
    await Bun.sleep(0);
    seen.push((await events.next(true)).type);
  }
  expect(seen).toEqual(["tables", "batch", "tables", "tables"]);
});

test("turns come between whole transactions, one for each batch that is there; one that is not wanted any more is left out", async () => {
  const { events, give, caughtUp } = stage();
  caughtUp.resolve();
  await Bun.sleep(0);
  const done: string[] = [];
  const wanted = new AbortController();
  const one = events.betweenBatches(async () => done.push("one"), wanted.signal);
  const failing = events.betweenBatches(() => Promise.reject(new Error("of its own")), wanted.signal);
  const unwanted = new AbortController();
  const left = events.betweenBatches(async () => done.push("left out"), unwanted.signal);
  // They are looked at when all is over.
  for (const turn of [failing, left]) turn.catch(() => {});
  const seen: string[] = [];
  for (const isWhole of [false, true, true, true]) {
    give(emptyBatch("text", lsn(1n)));
    await Bun.sleep(0);
    const event = await events.next(isWhole);
    seen.push(event.type);
    if (event.type === "action") await event.run();
  }
  expect(seen).toEqual(["batch", "action", "batch", "action"]);
  unwanted.abort(new Error("not wanted"));
  await expect(left).rejects.toThrow("not wanted");
  await expect(failing).rejects.toThrow("of its own");
  expect(await one).toBe(1);
  expect(done).toEqual(["one"]);
  await expect(events.betweenBatches(async () => {}, unwanted.signal)).rejects.toThrow("not wanted");
});

test("what is waited for is told as it comes: a task, a failure, the word to stop", async () => {
  const one = stage();
  one.caughtUp.resolve();
  const waiting = one.events.next(true);
  one.tasks.offer("1", task);
  expect((await waiting).type).toBe("task");
  const stopping = one.events.next(true);
  one.stop.abort();
  expect((await stopping).type).toBe("stop");

  const other = stage();
  const failing = other.events.next(true);
  other.events.fail(new Error("refused"));
  await expect(failing).rejects.toThrow("refused");
  const lost = stage();
  const losing = lost.events.next(true);
  lost.refuse(new Error("connection lost"));
  await expect(losing).rejects.toThrow("connection lost");
});

test("nothing is left behind of a batch that was given out", async () => {
  const { events, give, caughtUp } = stage();
  caughtUp.resolve();
  const given: WeakRef<ChangeBatch>[] = [];
  const handle = async () => {
    const batch = emptyBatch("text", lsn(1n));
    given.push(new WeakRef(batch));
    const next = events.next(true);
    give(batch);
    await next;
  };
  for (let i = 0; i < 200; i++) await handle();
  await waitFor("the batches to be collected", async () => {
    Bun.gc(true);
    return given.filter((ref) => ref.deref() !== undefined).length < 20;
  });
  expect(given.length).toBe(200);
});

test("an action at an LSN runs between what was committed before it and the rest, and nothing else comes in between", async () => {
  const { events, tasks, give, caughtUp, reached } = stage();
  caughtUp.resolve();
  await Bun.sleep(0);
  const done: string[] = [];
  const at = events.exactlyAt(
    async () => lsn(20n),
    async () => done.push("at 20"),
    new AbortController().signal,
  );
  const placing = await events.next(true);
  if (placing.type === "action") await placing.run();
  expect(reached).toEqual([lsn(20n)]);
  tasks.offer("1", task);
  const other = events.betweenBatches(async () => done.push("other"), new AbortController().signal);
  give(batchOf(10n, 15n, 25n));
  const before = await events.next(true);
  expect(before).toMatchObject({ type: "batch", batch: { count: 2, resumeLsn: lsn(20n) } });
  const action = await events.next(true);
  if (action.type === "action") await action.run();
  expect(await at).toBe(1);
  const rest: string[] = [];
  for (let i = 0; i < 3; i++) {
    const event = await events.next(true);
    rest.push(event.type);
    if (event.type === "action") await event.run();
    if (event.type === "batch") expect(event.batch.count).toBe(1);
  }
  await other;
  expect(rest.toSorted()).toEqual(["action", "batch", "task"]);
  expect(done).toEqual(["at 20", "other"]);
});

test("an action at an LSN is given up with its place, and with its signal", async () => {
  const { events, give, caughtUp } = stage();
  caughtUp.resolve();
  await Bun.sleep(0);
  const signal = new AbortController();
  const none = events.exactlyAt(
    async () => null,
    async () => "never",
    signal.signal,
  );
  const placing = await events.next(true);
  if (placing.type === "action") await placing.run();
  expect(await none).toBeNull();

  const waiting = events.exactlyAt(
    async () => lsn(20n),
    async () => "never",
    signal.signal,
  );
  waiting.catch(() => {});
  const again = await events.next(true);
  if (again.type === "action") await again.run();
  await Bun.sleep(0);
  signal.abort(new Error("not wanted"));
  await expect(waiting).rejects.toThrow("not wanted");
  give(batchOf(10n, 25n));
  expect(await events.next(true)).toMatchObject({ type: "batch", batch: { count: 2 } });
});

test("a place is reached where the last piece before it has brought all of its transaction", async () => {
  const { events, give, caughtUp } = stage();
  caughtUp.resolve();
  await Bun.sleep(0);
  const at = events.exactlyAt(
    async () => lsn(20n),
    async () => "done",
    new AbortController().signal,
  );
  const placing = await events.next(true);
  if (placing.type === "action") await placing.run();
  const piece = new BatchBuilder("text", lsn(1n));
  piece.begin(10n, 0n, 7);
  piece.add(ChangeKind.truncate, 0, 0, 0, 0, 0, 0, 0);
  give(piece.takeAll().batch);
  expect(await events.next(true)).toMatchObject({ type: "batch", batch: { endsInTransaction: true } });
  give(batchOf(25n));
  expect(await events.next(false)).toMatchObject({
    type: "batch",
    batch: { count: 0, endsInTransaction: false, resumeLsn: 20n },
  });
  const reached = await events.next(true);
  if (reached.type === "action") await reached.run();
  expect(await at).toBe("done");
  expect(await events.next(true)).toMatchObject({ type: "batch", batch: { count: 1 } });
});
