// Copies that a run makes by itself, between a source and a sink in memory: which are made now and which beside the stream, and what comes of
// tables that cannot be read.

import { expect, test } from "bun:test";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import type { TableShape } from "../../../src/change/relation.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { MissingCopies, type MissingCopiesRequest } from "../../../src/pipeline/copy/missing-copies.ts";
import { asPublished } from "../../../src/pipeline/locked-tables.ts";
import { ProgressMeter } from "../../../src/pipeline/progress-meter.ts";
import type { PreparedTables, Sink } from "../../../src/sink/sink.ts";
import type { Source } from "../../../src/source/source.ts";
import { eventsTo, nothingTold } from "../../support/contract/bench.ts";
import { memorySink } from "../../support/contract/memory-sink.ts";
import { MemoryStore } from "../../support/contract/memory-store.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import { unwatchedStates } from "../../support/pipeline/unwatched-states.ts";
import { usedMs } from "../../support/processor-time.ts";
import { decodedRows } from "../../support/rows/decoded-changes.ts";

const never = new AbortController().signal;
const beginning: Checkpoint = { resumeLsn: lsn(1n), partial: null, lastVersion: 0n, log: "log" };
const denied = new MillraceError("source_permission_denied", "It may not be read.");

class Rig implements Disposable {
  readonly source = new MemorySource();
  readonly told = nothingTold();
  readonly warnings = new Map<string, string | null>();
  readonly sink: Sink;
  readonly copies: MissingCopies;
  readonly #store = new MemoryStore();
  readonly #meter = new ProgressMeter(
    () => {},
    () => 0,
  );

  private constructor(change: Partial<MissingCopiesRequest>) {
    this.sink = memorySink(this.#store, { signal: never, events: eventsTo(this.told, () => {}) });
    this.copies = new MissingCopies({
      source: this.source as unknown as Source,
      sink: this.sink,
      meter: this.#meter,
      forms: ["text"],
      states: unwatchedStates,
      reporter: {
        phase() {},
        reportMeanwhile() {},
        warn: (topic, reason) => void this.warnings.set(topic, reason),
      },
      work: "changes",
      skipSnapshots: false,
      parallelCopies: 2,
      stop: never,
      retryPace: { againMs: 20, mostMs: 40, changedAgainMs: 10 },
      ...change,
    });
  }

  static async begin(change: Partial<MissingCopiesRequest> = {}): Promise<Rig> {
    const rig = new Rig(change);
    await rig.sink.open();
    await rig.sink.begin(beginning);
    return rig;
  }

  async prepare(): Promise<readonly [readonly TableShape[], PreparedTables]> {
    const tables = await this.source.tables();
    return [tables, await this.copies.prepare(tables)];
  }

  /** Of each table, the ids of its rows at the sink. */
  get held(): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(
      [...this.#store.held.tables].map(([name, { rows }]) => [
        name.replace("public.", ""),
        [...rows.values()].map(({ id }) => Number(id)).toSorted((a, b) => a - b),
      ]),
    );
  }

  /** Why changes of tables are left out, by their names. */
  get leftOut(): readonly string[] {
    return this.told.setAside.map(({ name }) => name);
  }

  [Symbol.dispose](): void {
    this.copies[Symbol.dispose]();
    this.#meter[Symbol.dispose]();
  }
}

test("what the sink lacks is copied while the stream waits, and the source hears of it", async () => {
  using rig = await Rig.begin();
  const { source, copies } = rig;
  source.add("a", [
    [1, "v"],
    [2, "v"],
  ]);
  source.add("b", [[7, "v"]], []);
  await copies.make(...(await rig.prepare()), "waits");
  expect(rig.held).toEqual({ a: [1, 2], b: [7] });
  expect(source.held.toSorted()).toEqual(["a", "b"]);
  expect((await rig.prepare())[1].missing).toEqual([]);
  expect(source.openPoints).toBe(0);
  // Nothing is missing: no point is asked for.
  source.noPoint = denied;
  await copies.make(...(await rig.prepare()), "waits");
});

test("beside a table that cannot be read, a copy of one that was published for it is not made twice", async () => {
  using rig = await Rig.begin();
  const { source, copies, sink } = rig;
  source.add("fine", [[1, "v"]]);
  source.add("denied", [[2, "v"]]);
  source.failures.set("denied", denied);
  const coverage = { excluded: [], isListed: false, isUnpublished: true };
  const before = (await source.tables()).map((table) => ({ ...table, coverage }));
  const prepared = await copies.prepare(before);
  const unpublished: string[] = [];
  const { prepare } = sink;
  sink.prepare = async (tables, ...rest) => {
    for (const each of tables) if (each.coverage?.isUnpublished) unpublished.push(each.relation.name);
    return await prepare(tables, ...rest);
  };
  await copies.make(asPublished(before, null), prepared, "waits");
  expect(unpublished).toEqual([]);
  expect(rig.held).toMatchObject({ fine: [1], denied: [] });
});

test("a table that cannot be read keeps no other; it is left out, and copied when it can be", async () => {
  using rig = await Rig.begin();
  const { source, copies } = rig;
  source.add("fine", [[1, "v"]]);
  source.add("denied", [[2, "v"]]);
  source.failures.set("denied", denied);
  const ready = Promise.withResolvers<void>();
  copies.retryDuringStream(ready.resolve);
  await copies.make(...(await rig.prepare()), "waits");
  expect(rig.held).toMatchObject({ fine: [1], denied: [] });
  expect([source.held, rig.leftOut]).toEqual([["fine"], ["denied"]]);
  // While it is known to be unreadable, it is not asked for.
  expect((await rig.prepare())[1].missing).toEqual([]);
  source.failures.clear();
  await ready.promise;
  await copies.make(...(await rig.prepare()), "waits");
  expect(rig.held).toMatchObject({ denied: [2] });
  expect(rig.leftOut).toEqual([]);
});

test("what is the matter with the source and not with one table ends the copies", async () => {
  using rig = await Rig.begin();
  rig.source.add("a", [[1, "v"]]);
  const gone = new MillraceError("source_unreachable", "It is gone.");
  rig.source.failures.set("a", gone);
  const made = rig.copies.make(...(await rig.prepare()), "waits");
  const { code, message } = gone;
  expect(await made.catch((error: unknown) => error)).toMatchObject({ code, message });
  expect(rig.source.openPoints).toBe(0);
});

test("beside the stream, copies are begun where they can go on by themselves; the others are made now", async () => {
  using rig = await Rig.begin();
  const { source, copies } = rig;
  const begun: string[] = [];
  copies.incremental.onBegun((all) => begun.push(...all.map(({ table }) => table.relation.name)));
  const keyed = source.add("keyed", [[1, "v"]]);
  source.add("keyless", [[2, "v"]], []);
  await copies.make(...(await rig.prepare()), "runs");
  expect(begun).toEqual(["keyed"]);
  expect(rig.held).toEqual({ keyed: [], keyless: [2] });
  expect(copies.incremental.isUnderWay(keyed)).toBe(true);
  expect((await rig.prepare())[1].missing).toEqual([]);
});

test("one that failed beside the stream is made while it waits, once", async () => {
  using rig = await Rig.begin();
  const { source, copies } = rig;
  const begun: Parameters<Parameters<typeof copies.incremental.onBegun>[0]>[0][number][] = [];
  copies.incremental.onBegun((all) => begun.push(...all));
  source.add("a", [[1, "v"]]);
  await copies.make(...(await rig.prepare()), "runs");
  const [first] = begun;
  await first!.copy[Symbol.asyncDispose]();
  copies.incremental.failed(first!, null);
  await copies.make(...(await rig.prepare()), "runs");
  expect(begun).toHaveLength(1);
  expect(rig.held).toEqual({ a: [1] });
});

test("no stream stands still for a point that is not to be had: the tables are tried again later", async () => {
  using rig = await Rig.begin();
  const { source, copies } = rig;
  source.add("keyless", [[1, "v"]], []);
  source.noPoint = new MillraceError("slots_exhausted", "There are no more slots.");
  await copies.makeForStream(...(await rig.prepare()));
  expect(rig.leftOut).toEqual(["keyless"]);
  source.noPoint = null;
  const ready = Promise.withResolvers<void>();
  copies.retryDuringStream(ready.resolve);
  await ready.promise;
  await copies.makeForStream(...(await rig.prepare()));
  expect(rig.held).toEqual({ keyless: [1] });
  expect(rig.leftOut).toEqual([]);
});

test("rows that are incomplete are copied by their keys, before anything else", async () => {
  using rig = await Rig.begin();
  const { source, copies, sink } = rig;
  const taken: unknown[] = [];
  sink.copies.takeRows = async (chunk) => {
    for (const [key] of await decodedRows(chunk, never)) taken.push([chunk.table.relation.name, key]);
  };
  const table = source.add("a", [
    [1, "v"],
    [2, "v"],
  ]);
  await copies.make(...(await rig.prepare()), "waits");
  source.set("a", [
    [1, "other"],
    [3, "v"],
  ]);
  source.add("b", [[1, "v"]]);
  const [tables, prepared] = await rig.prepare();
  await copies.make(tables, { ...prepared, incomplete: [{ table, keys: [["3"]] }] }, "waits");
  expect(taken).toEqual([["a", '["3"]']]);
  expect(rig.held).toEqual({ a: [1, 2], b: [1] });
  expect(source.reads.slice(1).map(({ table: name, part }) => [name, part])).toEqual([
    ["a", { kind: "rows", keys: [["3"]] }],
    ["b", null],
  ]);
});

test("with skip_snapshots nothing is copied, and tables that came later are told of", async () => {
  using rig = await Rig.begin({ skipSnapshots: true });
  const { source, copies } = rig;
  const early = source.add("early", [[1, "v"]]);
  const covered = { excluded: [], isListed: false };
  const prepared = (table: TableShape): PreparedTables => ({ form: "text", missing: [table], behind: [] });
  const unpublished = { ...early, coverage: { ...covered, isUnpublished: true } };
  await copies.make([unpublished], prepared(unpublished), "waits", await source.snapshotPoint(never));
  expect([rig.warnings.get("late tables"), copies.late.areAny]).toEqual([undefined, false]);
  const late = { ...source.add("late", [[1, "v"]]), coverage: { ...covered, isUnpublished: true } };
  await copies.make([late], prepared(late), "runs");
  expect(rig.warnings.get("late tables")).toContain("public.late");
  expect(copies.late.areAny).toBe(true);
  await copies.make([late], { ...prepared(late), missing: [] }, "runs");
  expect([rig.warnings.get("late tables"), copies.late.areAny]).toEqual([null, false]);
  expect(source.reads).toEqual([]);
});

test("copies that could not be begun for want of a point are given up", async () => {
  using rig = await Rig.begin();
  const { source, copies, sink } = rig;
  source.add("a", [[1, "v"]]);
  const disposed: string[] = [];
  const begin = sink.copies.begin.bind(sink.copies);
  sink.copies.begin = async (table, ...rest) => ({
    ...(await begin(table, ...rest)),
    [Symbol.asyncDispose]: async () => void disposed.push(table.relation.name),
  });
  source.noPoint = new MillraceError("slots_exhausted", "There are no more slots.");
  const made = copies.make(...(await rig.prepare()), "waits");
  expect(await made.catch((error: unknown) => error)).toBe(source.noPoint);
  expect(disposed).toEqual(["a"]);
});

test("without a stream what cannot be read is tried again, until it can be", async () => {
  using rig = await Rig.begin({ work: "copies" });
  const { source, copies } = rig;
  source.add("a", [[1, "v"]]);
  source.failures.set("a", denied);
  await copies.make(...(await rig.prepare()), "waits");
  let attempts = 0;
  const meanwhile = async () => {
    if (++attempts === 3) source.failures.clear();
  };
  await copies.finish(meanwhile, () => {});
  expect(rig.held).toEqual({ a: [1] });
  expect(attempts).toBeGreaterThanOrEqual(3);
});

test("without a stream a table that fails too often ends the run with its reason", async () => {
  using rig = await Rig.begin({ work: "copies" });
  const { source, copies } = rig;
  source.add("a", [[1, "v"]]);
  source.failures.set("a", denied);
  await copies.make(...(await rig.prepare()), "waits");
  const finished = copies.finish(
    async () => {},
    () => {},
  );
  const failure = await finished.catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: denied.code,
    message: expect.stringContaining("public.a: It may not"),
  });
});

test("a table is found by its name without a search", async () => {
  using rig = await Rig.begin();
  rig.source.add("t", []);
  const [table] = await rig.source.tables();
  if (!table) throw new Error("there is no table");
  const { relation } = table;
  const tables = Array.from({ length: 5_000 }, (_, id) => ({
    ...table,
    relation: { ...relation, id, name: `t${id}` },
  }));
  await rig.copies.prepare(tables);
  const beganMs = usedMs();
  const { schema } = relation;
  for (let asked = 0; asked < 50_000; asked++) rig.copies.idOf({ schema, name: "t4999" });
  expect(usedMs() - beganMs).toBeLessThan(1_000);
  expect(rig.copies.idOf({ schema, name: "t4999" })).toBe(4_999);
  expect(rig.copies.idOf({ schema, name: "t5000" })).toBeNull();
});
