// First copies beside a stream that runs: what comes of the others when one fails, and who is told. Without servers.

import { expect, test } from "bun:test";
import type { TableShape } from "../../../src/change/relation.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { CopyEnvironment } from "../../../src/pipeline/copy/copy-environment.ts";
import {
  type BegunCopy,
  IncrementalCopies,
  makeIncrementalCopies,
} from "../../../src/pipeline/copy/incremental-copies.ts";
import { UnreadableTables } from "../../../src/pipeline/unreadable-tables.ts";
import type { TableCopy } from "../../../src/sink/copy-sink.ts";
import { MemorySource } from "../../support/pipeline/memory-source.ts";
import { copyEnvironment, runningStream, scriptedCopy } from "../../support/pipeline/scripted-copy.ts";
import { unwatchedStates } from "../../support/pipeline/unwatched-states.ts";

const never = new AbortController().signal;
const refused = new Error("refused");

class Rig implements Disposable {
  readonly log: string[] = [];
  readonly source = new MemorySource();
  readonly phases: string[] = [];
  readonly unreadable = new UnreadableTables();
  readonly copies: IncrementalCopies;
  readonly environment: CopyEnvironment;
  /** What was asked to be copied while the stream waits. */
  again = 0;

  constructor() {
    const reporter = {
      reportMeanwhile: (phase: object, { kind }: { kind: string }) =>
        void this.phases.push(`${"table" in phase ? phase.table : ""} ${kind}`),
    };
    this.copies = new IncrementalCopies(unwatchedStates, reporter, this.unreadable);
    this.environment = copyEnvironment(this.source, {}, runningStream(this.log));
  }

  begun(name: string, steps: Partial<TableCopy> = {}): BegunCopy {
    return { table: this.source.add(name, [[1, "v"]]), copy: scriptedCopy(this.log, steps) };
  }

  async make(begun: readonly BegunCopy[], signal = never): Promise<void> {
    const copyAgain = async () => void this.again++;
    await makeIncrementalCopies(this.environment, this.copies, begun, copyAgain, signal);
  }

  [Symbol.dispose](): void {
    this.unreadable[Symbol.dispose]();
  }
}

test("all that have begun are made, and the source hears of each", async () => {
  using rig = new Rig();
  const begun = [rig.begun("a"), rig.begun("b")];
  rig.copies.begin(begun);
  expect(begun.map(({ table }) => rig.copies.isUnderWay(table))).toEqual([true, true]);
  const ended = rig.copies.ended(begun[0]!.table, never);
  await rig.make(begun);
  await ended;
  expect(begun.map(({ table }) => rig.copies.isUnderWay(table))).toEqual([false, false]);
  expect(rig.source.held.toSorted()).toEqual(["a", "b"]);
  expect(rig.phases.slice(0, 2)).toEqual(["public.a start", "public.b start"]);
  expect(rig.phases.slice(2).toSorted()).toEqual(["public.a complete", "public.b complete"]);
  expect(rig.log.filter((each) => each === "dispose")).toHaveLength(2);
  expect([rig.again, rig.source.openPoints]).toEqual([0, 0]);
});

test("none is started before the stream has passed a point of after they began", async () => {
  using rig = new Rig();
  const begun = [rig.begun("a")];
  rig.copies.begin(begun);
  await rig.make(begun);
  expect(rig.log.slice(0, 2)).toEqual([expect.stringMatching(/^passed/), "["]);
  expect(rig.log[2]).toBe("start");
});

test.each(["start", "take", "settle", "finish"] as const)(
  "one that fails at its %s keeps no other from being made, and is copied again while the stream waits",
  async (step) => {
    using rig = new Rig();
    const failing = rig.begun("failing", { [step]: () => Promise.reject(refused) });
    const other = rig.begun("other");
    rig.copies.begin([failing, other]);
    await rig.make([failing, other]);
    expect(rig.source.held).toEqual(["other"]);
    expect(rig.again).toBe(1);
    expect(rig.copies.isUnderWay(failing.table)).toBe(false);
    // It is disposed of before it is begun once more, between two batches.
    expect(rig.log.slice(-3)).toEqual(["[", "dispose", "]"]);
    expect([rig.copies.takeFailed(failing.table), rig.copies.takeFailed(failing.table)]).toEqual([
      true,
      false,
    ]);
    expect(rig.copies.takeFailed(other.table)).toBe(false);
    expect(rig.source.openPoints).toBe(0);
  },
);

test("where no point can be had, all of them are copied again while the stream waits", async () => {
  using rig = new Rig();
  const begun = [rig.begun("a"), rig.begun("b")];
  rig.copies.begin(begun);
  rig.source.snapshotPoint = () => Promise.reject(refused);
  await rig.make(begun);
  expect(rig.again).toBe(1);
  expect(begun.map(({ table }) => rig.copies.takeFailed(table))).toEqual([true, true]);
});

test("where the source has no slot for a point, the stream waits for none of them: they are tried again later", async () => {
  using rig = new Rig();
  const begun = [rig.begun("a"), rig.begun("b")];
  rig.copies.begin(begun);
  const blocked = new MillraceError("slot_creation_blocked", "A transaction is open.");
  rig.source.snapshotPoint = () => Promise.reject(blocked);
  await rig.make(begun);
  expect(rig.again).toBe(1);
  expect(begun.map(({ table }) => rig.copies.takeFailed(table))).toEqual([false, false]);
  expect(begun.map(({ table }) => rig.unreadable.waitingFor(table))).toEqual([blocked, blocked]);
});

test("what ends while the stream waits for the failed ends the run", async () => {
  using rig = new Rig();
  const failing = rig.begun("failing", { take: () => Promise.reject(refused) });
  rig.copies.begin([failing]);
  const broken = new Error("the run is over");
  const made = makeIncrementalCopies(
    rig.environment,
    rig.copies,
    [failing],
    () => Promise.reject(broken),
    never,
  );
  expect(await made.catch((error: unknown) => error)).toBe(broken);
});

test("once they are made, the run's end leaves a copy alone that the stream waits for", async () => {
  using rig = new Rig();
  const begun = [rig.begun("a")];
  rig.copies.begin(begun);
  const stop = new AbortController();
  await rig.make(begun, AbortSignal.any([stop.signal]));
  stop.abort(new Error("the run is over"));
  expect(rig.copies.abort.signal.aborted).toBe(false);
});

test("the run's signal ends all of them, with its reason", async () => {
  using rig = new Rig();
  const stop = new AbortController();
  const reason = new Error("the run is over");
  const taking = Promise.withResolvers<void>();
  const take = () => {
    taking.resolve();
    // As a sink does whose signal is the copies'.
    return new Promise<void>((_, reject) =>
      rig.copies.abort.signal.addEventListener("abort", () => reject(rig.copies.abort.signal.reason)),
    );
  };
  const begun = [rig.begun("a", { take })];
  rig.copies.begin(begun);
  const made = rig.make(begun, stop.signal).catch((error: unknown) => error);
  await taking.promise;
  stop.abort(reason);
  expect(await made).toBe(reason);
  expect([rig.again, rig.source.openPoints]).toEqual([0, 0]);
});

test("who listens is told of those that have begun, also before", () => {
  using rig = new Rig();
  const groups: string[][] = [];
  const nameOf = ({ table }: { table: TableShape }) => table.relation.name;
  rig.copies.begin([rig.begun("a")]);
  rig.copies.begin([rig.begun("b"), rig.begun("c")]);
  rig.copies.onBegun((begun) => groups.push(begun.map(nameOf)));
  rig.copies.begin([rig.begun("d")]);
  rig.copies.begin([]);
  expect(groups).toEqual([["a", "b", "c"], ["d"]]);
});
