// Which copies the stream waits for, what ends a copy beside it, and what of one counts, with the record and the scheduler as they are
// and a receiver that is made by hand.

import { expect, test } from "bun:test";
import { CopyTextParser } from "../../../../src/change/copy-text.ts";
import { type Lsn, lsn, zeroLsn } from "../../../../src/change/lsn.ts";
import type { Relation, TableShape } from "../../../../src/change/relation.ts";
import type { CopyMode, StreamDuring } from "../../../../src/sink/copy-sink.ts";
import { DeliveryCopies } from "../../../../src/sink/delivery/copy/delivery-copies.ts";
import { KeylessCopies } from "../../../../src/sink/delivery/copy/keyless-copies.ts";
import { RecordedCopies } from "../../../../src/sink/delivery/copy/recorded-copies.ts";
import type {
  Answers,
  CopyMessage,
  FromDelivery,
  Question,
} from "../../../../src/sink/delivery/line/line-messages.ts";
import type { AttemptOutcome } from "../../../../src/sink/delivery/order/attempt.ts";
import { RequestTransport } from "../../../../src/sink/delivery/order/request-transport.ts";
import { Scheduler } from "../../../../src/sink/delivery/order/scheduler.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import type { StreamWindows } from "../../../../src/sink/delivery/stream/stream-windows.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import type { RowOperation } from "../../../../src/sink/format/row-encoder.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import {
  relation,
  type TextTuple,
  tableShape,
  tupleBytes,
  unchanged,
} from "../../../support/rows/batch-fixture.ts";

const keyed = relation("t", [
  ["id", 23, "integer"],
  ["v", 25, "text"],
]);
const name = "public.t";
const decoder = new TextDecoder();

type Ask = <T extends CopyMessage["type"]>(
  question: Extract<Question, { type: T }>,
) => Promise<Answers[T & keyof Answers]>;

/** Copies of a session that has a copy of the table, or none. */
function session(shape: Relation = keyed, { skipped = "", isCopied = true, maxTouched = 2 } = {}) {
  const copied = new Map(isCopied ? [[name, { identity: "", lsn: lsn(1n) }]] : []);
  const record = {
    checkpoint: { resumeLsn: lsn(1n), partial: null, lastVersion: 1n },
    log: null,
    origin: { lsn: lsn(1n), version: 1n },
    windowEnds: [],
    reached: null,
    versionSteps: [],
    ...noTables,
    copied,
  };
  const keeper = new RecordKeeper({ save: async () => {} }, record, new SavedTables(record), () => 0, 0);
  const filter = { sends: (operation: RowOperation) => operation !== skipped };
  const bodies: string[] = [];
  const receiver = { answer: async (): Promise<AttemptOutcome> => ({ kind: "delivered" }) };
  const scheduler = new Scheduler(
    async ({ body }) => {
      if (body instanceof Uint8Array) bodies.push(decoder.decode(body));
      return await receiver.answer();
    },
    {
      retriesExhausted: "webhook_retries_exhausted",
      maxInFlight: 8,
      maxRetryingPerTable: 1,
      retry: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs: 1, maxBackoffMs: 1 },
      maxBytes: 1e6,
      maxRequests: 40,
      maxRows: 1e6,
      monotonic: () => 0,
      sleep: async () => {},
      random: () => 0,
    },
    { retrying: () => {}, failed: (error) => expect(error).toBeNull() },
  );
  const encoding = {
    ...filter,
    transactions: null,
    compile: () => new NativeRowEncoder(shape, { placeholder: false }),
  };
  const batch = { maxRows: 2, maxBytes: 1e6, isBare: false };
  const store = { load: async () => null, save: async () => {} };
  const transport = new RequestTransport({ batch, encoding }, scheduler, store);
  let version = 1;
  const stream = {
    flush: async () => {},
    submitted: async () => {},
    takeVersion: () => ++version,
    behind: { commitLsn: lsn(1n), ordinal: 0 },
  } as unknown as StreamWindows;
  const recorded = new RecordedCopies(keeper, filter);
  const table = compileTable(shape, new NativeRowEncoder(shape, { placeholder: false }));
  const answers = new Map<number, PromiseWithResolvers<unknown>>();
  const failures: unknown[] = [];
  const copies = new DeliveryCopies({
    chunk: { transport, commitPoint: null, sendsReads: true, yieldToIo: async () => {} },
    filter,
    maxUndelivered: 10,
    table: () => table,
    begun: () => ({ keeper, stream, recorded, keyless: new KeylessCopies(keeper, true) }),
    send: (message: FromDelivery) => {
      if (message.type === "reply") answers.get(message.id)?.resolve(message.answer);
      if (message.type === "refused") answers.get(message.id)?.reject(new Error(message.code));
    },
    failed: (error) => failures.push(error),
    delivered: () => {},
    maxTouched,
  });
  let lastId = 0;
  const ask: Ask = async (question) => {
    const answer = Promise.withResolvers<unknown>();
    answers.set(++lastId, answer);
    await copies.handle({ ...question, id: lastId } as CopyMessage);
    return (await answer.promise) as never;
  };
  const begin = (copy: number, mode: CopyMode, during: StreamDuring = "runs", of: Partial<TableShape> = {}) =>
    ask({
      type: "copy.begin",
      copy,
      handle: 0,
      table: { ...tableShape(shape), ...of },
      mode,
      stream: during,
    });
  const touch = (id: string, at: Lsn, as = table, v: TextTuple[number] = "x") => {
    const arena = tupleBytes([id, v]);
    const [before, after] = [new TupleView(), new TupleView()];
    before.read(arena, 0, 0);
    after.read(arena, 0, arena.length);
    const row = { table: as, arena, before, after, commitLsn: at };
    for (const watch of [recorded, copies]) if (watch.watches(as)) watch.see(row);
  };
  const rows = async (chunk: number, text: string) => {
    const parser = new CopyTextParser(shape, { lsn: lsn(10n), timeUs: 5n });
    parser.push(Buffer.from(text));
    const batch = parser.finish()!;
    const message = { batch: { ...batch, relations: [0] }, bytes: 0, isIncremental: true };
    await copies.handle({ type: "copy.rows", chunk, ...message });
  };
  const point = { part: null, lsn: lsn(10n), timeUs: 5n };
  return { copies, ask, begin, touch, rows, point, keeper, recorded, bodies, receiver, failures, table };
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: Error) => error.message,
  );

const byIndex: Relation = { ...keyed, replicaIdentity: "index" };
const byNothing: Relation = { ...keyed, replicaIdentity: "nothing" };
const keyless: Relation = { ...keyed, key: [] };
const keylessInFull: Relation = { ...keyless, replicaIdentity: "full" };
const byHash: Relation = { ...keyed, isKeyedByHash: true };
const byHashInFull: Relation = { ...byHash, replicaIdentity: "full" };

test.each<[string, Relation, string, StreamDuring]>([
  ["with a key", keyed, "", "runs"],
  ["under replica identity full", { ...keyed, replicaIdentity: "full" }, "", "runs"],
  ["keyed by hash, under replica identity full", byHashInFull, "", "runs"],
  ["whose inserts are not sent", keyed, "create", "waits"],
  ["whose deletes are not sent", keyed, "delete", "runs"],
  ["whose updates are not sent", keyed, "update", "waits"],
  ["whose copies are not sent", keyed, "read", "waits"],
  ["with its identity by an index", byIndex, "", "waits"],
  ["without an identity", byNothing, "", "waits"],
  ["without a key", keyless, "", "waits"],
  ["without a key, under replica identity full", keylessInFull, "", "waits"],
  ["keyed by hash", byHash, "", "waits"],
])("while a table %s is copied", async (_, shape, skipped, during) => {
  for (const [mode, isCopied] of [
    ["initial", false],
    ["merge", true],
    ["replace", true],
  ] as const) {
    const { begin } = session(shape, { skipped, isCopied });
    expect(await begin(1, mode)).toBe(during);
    expect(await begin(2, mode, "waits")).toBe("waits");
  }
});

test("a table whose changes are not published is copied again while the stream waits", async () => {
  const coverage = { excluded: [], isListed: false, isUnpublished: true };
  const { begin } = session();
  expect(await begin(1, "merge", "runs", { coverage })).toBe("waits");
  expect(await session(keyed, { isCopied: false }).begin(1, "initial", "runs", { coverage })).toBe("runs");
});

test("changes that come before a first copy are recorded when it begins, but where the stream waits or there is no key", async () => {
  const isMissed = async (shape: Relation, during: StreamDuring) => {
    const { begin, keeper } = session(shape, { isCopied: false });
    await begin(1, "initial", during);
    return keeper.record.copied.get(name)?.lsn;
  };
  expect(await isMissed(keyed, "runs")).toBe(zeroLsn);
  expect(await isMissed(byIndex, "runs")).toBe(zeroLsn);
  expect(await isMissed(keyed, "waits")).toBeUndefined();
  expect(await isMissed(keylessInFull, "runs")).toBeUndefined();
});

test("a copy beside which too much is touched begins again, and the stream waits for it; the next one goes beside it", async () => {
  const { copies, ask, begin, touch, point, table } = session();
  expect(await begin(1, "merge")).toBe("runs");
  expect(copies.watches(table)).toBe(true);
  // What comes before it starts does not count.
  for (const id of ["7", "8", "9"]) touch(id, lsn(3n));
  await ask({ type: "copy.start", copy: 1, isDivided: false });
  await ask({ type: "copy.chunk", copy: 1, chunk: 1, ...point });
  for (const id of ["1", "2", "1"]) touch(id, lsn(11n));
  await ask({ type: "copy.chunk-end", chunk: 1 });
  touch("3", lsn(12n));
  expect(await failureOf(ask({ type: "copy.finish", copy: 1 }))).toBe("table_changed");
  await copies.handle({ type: "copy.end", copy: 1 });
  expect(copies.watches(table)).toBe(false);
  expect([await begin(2, "merge"), await begin(3, "merge")]).toEqual(["waits", "runs"]);
});

test("rows that the stream has touched since the point stay away, and those of a copy that is spoiled", async () => {
  const { ask, begin, touch, rows, point, bodies, table, keeper } = session();
  await begin(1, "merge");
  await ask({ type: "copy.start", copy: 1, isDivided: false });
  touch("2", lsn(9n));
  await ask({ type: "copy.chunk", copy: 1, chunk: 1, ...point });
  touch("3", lsn(10n));
  await rows(1, "1\ta\n2\tb\n3\tc\n");
  await ask({ type: "copy.chunk-end", chunk: 1 });
  const row = (id: number, v: string) => ({ id, v, _sm_version: 2, _sm_deleted: false });
  expect(bodies.flatMap((body) => JSON.parse(body))).toEqual([row(1, "a"), row(2, "b")]);
  await ask({ type: "copy.chunk", copy: 1, chunk: 2, ...point });
  touch("4", lsn(12n), { ...table, relation: { ...keyed, columns: keyed.columns.slice(0, 1) } });
  await rows(2, "5\ta\n");
  expect(await failureOf(ask({ type: "copy.chunk-end", chunk: 2 }))).toBe("table_changed");
  expect(bodies.length).toBe(1);
  expect(await failureOf(ask({ type: "copy.chunk", copy: 1, chunk: 3, ...point }))).toBe("table_changed");
  expect(keeper.record.copied.get(name)?.lsn).toBe(lsn(1n));
});

test("a copy that has ended amid its rows ends nothing else, and does not count", async () => {
  const { copies, ask, begin, rows, point, receiver, keeper, failures } = session(keyed, { isCopied: false });
  const held = Promise.withResolvers<void>();
  receiver.answer = async () => {
    await held.promise;
    return { kind: "delivered" };
  };
  expect(await begin(1, "initial", "waits")).toBe("waits");
  expect(await ask({ type: "copy.start", copy: 1, isDivided: false })).toBeNull();
  await ask({ type: "copy.chunk", copy: 1, chunk: 1, ...point });
  await rows(1, "1\ta\n2\tb\n3\tc\n");
  await copies.handle({ type: "copy.end", copy: 1 });
  held.resolve();
  expect(await failureOf(ask({ type: "copy.chunk-end", chunk: 1 }))).toBe("sink_connection_lost");
  expect(await failureOf(ask({ type: "copy.finish", copy: 1 }))).toBe("sink_connection_lost");
  expect(keeper.record.copied.size).toBe(0);
  expect(failures).toEqual([]);
});

test("a first copy is none any more when another table takes the name, and is not missing until then", async () => {
  const { copies, ask, begin, point } = session(keyed, { isCopied: false });
  await begin(1, "initial");
  await ask({ type: "copy.start", copy: 1, isDivided: true });
  expect([...copies.look([tableShape(keyed)])]).toEqual([name]);
  await ask({ type: "copy.chunk", copy: 1, chunk: 1, ...point });
  await ask({ type: "copy.chunk-end", chunk: 1 });
  expect([...copies.look([tableShape({ ...keyed, id: keyed.id + 1 })])]).toEqual([]);
  expect(await failureOf(ask({ type: "copy.finish", copy: 1 }))).toBe("table_changed");
});

test("rows are not sent again beside a first copy that begins meanwhile, nor of a table whose name another one has taken", async () => {
  const replayed = async (isCopied: boolean) => {
    const made = session(keyed, { isCopied });
    const replay = { id: "task", keys: null };
    const asked = { copy: 1, handle: 0, table: tableShape(keyed), mode: "merge", stream: "runs" } as const;
    expect(await made.ask({ type: "copy.begin", ...asked, replay })).toBe("runs");
    await made.ask({ type: "copy.start", copy: 1, isDivided: false });
    await made.ask({ type: "copy.chunk", copy: 1, chunk: 1, ...made.point });
    return made;
  };
  const { ask, begin, rows, point, bodies } = await replayed(false);
  expect(await begin(2, "initial")).toBe("runs");
  await rows(1, "1\told\n");
  expect(await failureOf(ask({ type: "copy.chunk-end", chunk: 1 }))).toBe("table_changed");
  expect(bodies).toEqual([]);
  await ask({ type: "copy.start", copy: 2, isDivided: false });
  await ask({ type: "copy.chunk", copy: 2, chunk: 2, ...point });
  await rows(2, "1\tnew\n");
  await ask({ type: "copy.chunk-end", chunk: 2 });
  expect(await ask({ type: "copy.finish", copy: 2 })).toBe("all");
  expect(bodies.join()).toContain("new");
  const other = await replayed(true);
  expect([...other.copies.look([tableShape(keyed)])]).toEqual([]);
  other.copies.look([tableShape({ ...keyed, id: keyed.id + 1 })]);
  expect(await failureOf(other.ask({ type: "copy.chunk-end", chunk: 1 }))).toBe("table_changed");
});

test("ranges beside the stream are recorded as they are delivered, and rows that came in part are to be copied by their keys", async () => {
  const { ask, begin, touch, rows, point, keeper, recorded, table } = session(keyed, { isCopied: false });
  await begin(1, "initial");
  expect(await ask({ type: "copy.start", copy: 1, isDivided: true })).toEqual({
    done: [],
    begun: [],
    rows: 0,
  });
  const part = { kind: "range", range: { from: 0, to: 8 } } as const;
  await ask({ type: "copy.chunk", copy: 1, chunk: 1, ...point, part });
  await rows(1, "1\ta\n2\tb\n3\tc\n");
  await ask({ type: "copy.chunk-end", chunk: 1 });
  expect(keeper.record.chunked.get(name)).toMatchObject({ phase: "open", done: [part.range], rows: 3 });
  touch("2", lsn(11n), table, unchanged);
  expect(await ask({ type: "copy.finish", copy: 1 })).toBe("incomplete");
  expect(keeper.record.copied.get(name)?.lsn).toBe(lsn(10n));
  expect(recorded.due(lsn(12n))).toEqual([{ name, keys: [["2"]] }]);
});

test("a later copy counts as it did when rows of it are incomplete, and what it begins beside comes whole with it", async () => {
  const { ask, begin, touch, rows, point, keeper, recorded, table, copies } = session();
  const incomplete = () => keeper.record.chunked.get(name)?.incomplete.list().flat().toSorted() ?? [];
  const copyAt = async (copy: number, isDivided: boolean) => {
    await begin(copy, "merge");
    await ask({ type: "copy.start", copy, isDivided });
    touch("2", lsn(11n), table, unchanged);
    await ask({ type: "copy.chunk", copy, chunk: copy, ...point });
    await rows(copy, "1\ta\n2\tb\n");
    await ask({ type: "copy.chunk-end", chunk: copy });
    expect(await ask({ type: "copy.finish", copy })).toBe("incomplete");
    await copies.handle({ type: "copy.end", copy });
  };
  recorded.madeIncrementally(tableShape(keyed), false, lsn(9n), [["1"], ["7"]]);
  expect(incomplete()).toEqual(["1", "7"]);
  await copyAt(1, true);
  expect(incomplete()).toEqual(["2", "7"]);
  // What comes whole from here on is copied all the same: the changes may come again.
  touch("2", lsn(12n));
  expect(incomplete()).toEqual(["2", "7"]);
  recorded.forget(name);
  await copyAt(2, true);
  expect(incomplete()).toEqual(["2"]);
  expect(keeper.record.chunked.get(name)).toMatchObject({
    phase: "joined",
    points: { first: lsn(10n), last: lsn(10n) },
  });
  expect(keeper.record.copied.get(name)?.lsn).toBe(lsn(1n));
});

test.each([
  ["first", false],
  ["later", true],
])(
  "a %s copy in ranges beside which more rows come in part than can be recorded begins again, and the stream waits for it",
  async (_, isCopied) => {
    const { copies, ask, begin, touch, keeper, recorded, table } = session(keyed, {
      isCopied,
      maxTouched: 100_000,
    });
    const mode = isCopied ? "merge" : "initial";
    expect(await begin(1, mode)).toBe("runs");
    await ask({ type: "copy.start", copy: 1, isDivided: true });
    for (let id = 0; id < 40_000; id++) touch(String(id), lsn(3n), table, unchanged);
    expect(keeper.record.chunked.get(name)?.incomplete.list().length).toBe(40_000);
    touch("-1", lsn(3n), table, unchanged);
    expect(await failureOf(ask({ type: "copy.finish", copy: 1 }))).toBe("table_changed");
    expect(recorded.takeDue(lsn(4n))).toBe(false);
    await copies.handle({ type: "copy.end", copy: 1 });
    expect(recorded.takeDue(lsn(4n))).toBe(!isCopied);
    expect(keeper.record.chunked.get(name)?.phase).toBe(isCopied ? undefined : "refused");
    expect(await begin(2, mode)).toBe("waits");
    // It comes whole.
    expect(await ask({ type: "copy.start", copy: 2, isDivided: true })).toBeNull();
  },
);
