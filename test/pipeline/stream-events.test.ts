import { expect, test } from "bun:test";
import { emptyBatch } from "../../src/change/batch-builder.ts";
import type { ChangeBatch } from "../../src/change/change-batch.ts";
import { lsn } from "../../src/change/lsn.ts";
import { TaskQueue } from "../../src/pipeline/copy/task-queue.ts";
import type { OfferedTask } from "../../src/pipeline/run-reporter.ts";
import { StreamEvents } from "../../src/pipeline/stream-events.ts";
import type { ChangeStream } from "../../src/source/change-stream.ts";
import type { Source } from "../../src/source/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** A stream that is caught up when told, and gives batches when told. */
function stage() {
  const caughtUp = Promise.withResolvers<void>();
  const tables = Promise.withResolvers<void>();
  const ready: ChangeBatch[] = [];
  let asked: PromiseWithResolvers<ChangeBatch> | null = null;
  const stream: Pick<ChangeStream, "next" | "caughtUp"> = {
    caughtUp: caughtUp.promise,
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
  return { events, tasks, stop, give, caughtUp, tables, refuse: (error: unknown) => asked?.reject(error) };
}

const task: OfferedTask = {
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
