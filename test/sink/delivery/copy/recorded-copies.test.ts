// What is recorded of copies in ranges, and for how long. Copies to a receiver are in ../range-copies.thorough.ts and ../incremental-tasks.thorough.ts.

import { expect, test } from "bun:test";
import { type Lsn, lsn } from "../../../../src/change/lsn.ts";
import { RecordedCopies } from "../../../../src/sink/delivery/copy/recorded-copies.ts";
import { rangesMark, replayMark } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { relation, tableShape, tupleBytes, unchanged } from "../../../support/rows/batch-fixture.ts";

const shape = relation("t", [
  ["id", 23, "integer"],
  ["big", 25, "text"],
]);
const table = compileTable(shape, new NativeRowEncoder(shape, { placeholder: false }));
const name = "public.t";
const copied = new Map([[name, { identity: "", lsn: lsn(1n) }]]);
const range = { from: 0, to: 10 };

function begun() {
  const clock = { ms: 0 };
  const checkpoint = { resumeLsn: lsn(1n), partial: null, lastVersion: 1n };
  const empty = { log: null, windowEnds: [], reached: null, versionSteps: [], chunked: new Map() };
  const record = { ...empty, checkpoint, origin: { lsn: lsn(1n), version: 1n }, copied };
  const keeper = new RecordKeeper({ save: async () => {} }, record, new SavedTables(record), () => 0);
  const copies = new RecordedCopies(keeper, { sends: () => true }, () => clock.ms);
  const seePart = (id: number, from?: number, at = lsn(5n)) => {
    const old = from === undefined ? new Uint8Array() : tupleBytes([String(from), null]);
    const arena = new Uint8Array(Buffer.concat([old, tupleBytes([String(id), unchanged])]));
    const [before, after] = [new TupleView(), new TupleView()];
    before.read(arena, 0, old.length);
    after.read(arena, old.length, arena.length);
    copies.see({ table, arena, before, after, commitLsn: at });
  };
  return { clock, keeper, copies, seePart };
}

test("ranges, and rows that came in part, are kept for whoever takes the copy up, and not for ever", () => {
  const { clock, keeper, copies, seePart } = begun();
  expect(copies.begin(tableShape(shape), false, true)).toEqual({ done: [], begun: [], rows: 0 });
  seePart(3);
  copies.endRange(name, range, lsn(7n), 100);
  clock.ms = 10_000_000;
  copies.takeDue(lsn(8n));
  copies.ended(name);
  expect(copies.begin(tableShape(shape), false, true)).toEqual({ done: [range], begun: [], rows: 100 });
  expect(copies.incompleteOf(name).list()).toEqual([["3"]]);
  copies.ended(name);
  copies.takeDue(lsn(9n));
  clock.ms += 899_000;
  copies.takeDue(lsn(9n));
  expect(keeper.record.chunked.size).toBe(1);
  clock.ms += 1_000;
  copies.takeDue(lsn(9n));
  expect(keeper.record.chunked.size).toBe(0);
});

test("a table that was rewritten begins anew, and one of which too many rows come in part is not recorded any more", () => {
  const { keeper, copies, seePart } = begun();
  copies.begin(tableShape(shape), false, true);
  copies.endRange(name, range, lsn(7n), 100);
  const rewritten = { ...tableShape(shape), storage: "2" };
  expect(copies.begin(rewritten, false, true)).toEqual({ done: [], begun: [], rows: 0 });
  for (let id = 0; id <= 40_000; id++) seePart(id);
  expect(copies.holds(rewritten, false)).toBe(false);
  expect(keeper.record.chunked.size).toBe(0);
  // That it is copied counts still.
  expect(keeper.record.copied).toBe(copied);
  // Nor is it where rows of a copy before are incomplete, which stay due.
  copies.begin(tableShape(shape), true, false);
  expect(copies.begin(tableShape(shape), false, true)).toBeNull();
});

test("ranges of a task that may go on stay as they are while another one is made, which is not recorded then", () => {
  const { copies } = begun();
  const marks = [rangesMark(tableShape(shape)), replayMark(tableShape(shape), "task")] as const;
  for (const [mark, other] of [marks, marks.toReversed() as [string, string]]) {
    copies.begin(tableShape(shape), false, true, mark);
    copies.endRange(name, range, lsn(7n), 100);
    copies.ended(name);
    expect(copies.begin(tableShape(shape), false, true, other)).toBeNull();
    expect(copies.begin(tableShape(shape), false, true, mark)?.done).toEqual([range]);
    copies.forget(name);
  }
});

test("a first copy is open until its last range, and one that is made again has other requests", () => {
  const { copies } = begun();
  copies.begin(tableShape(shape), false, true);
  expect(copies.isAnyOpen).toBe(false);
  copies.forget(name);
  copies.begin(tableShape(shape), true, false);
  expect(copies.isAnyOpen).toBe(true);
  copies.made(tableShape(shape), lsn(1n));
  expect(copies.isAnyOpen).toBe(false);
});

test("without a stream ranges as of an earlier point do not count", () => {
  const { keeper, copies } = begun();
  copies.begin(tableShape(shape), true, false);
  copies.endRange(name, range, lsn(7n), 100);
  expect(copies.begin(tableShape(shape), true, false)?.done).toEqual([range]);
  keeper.change({ log: "copies of something" });
  expect(copies.begin(tableShape(shape), true, false)).toEqual({ done: [], begun: [], rows: 0 });
});

test("a copy as of several points waits for the stream, and rows that it brings in part are due then", () => {
  const { keeper, copies, seePart } = begun();
  const rest = { from: 10, to: null };
  copies.begin(tableShape(shape), true, false);
  const origin = { version: 5, timeUs: 5, lsn: lsn(1n) };
  expect(copies.beginRange(name, range, origin)).toBe(true);
  expect(copies.beginRange(name, range, origin)).toBe(false);
  copies.endRange(name, range, lsn(4n), 100);
  copies.endRange(name, rest, lsn(9n), 100);
  expect(copies.originOf(name)).toEqual(origin);
  copies.made(tableShape(shape), lsn(0n));
  expect(keeper.record.copied.get(name)?.lsn).toBe(lsn(9n));
  expect(copies.awaited(lsn(4n))).toBeNull();
  seePart(3);
  expect(copies.awaited(lsn(4n))).toBe(lsn(9n));
  expect(copies.takeDue(lsn(8n))).toBe(false);
  expect([copies.takeDue(lsn(9n)), copies.takeDue(lsn(9n))]).toEqual([true, false]);
  expect(copies.due(lsn(9n))).toEqual([{ name, keys: [["3"]] }]);
  copies.completed(name, [["3"]], lsn(9n));
  expect(copies.takeDue(lsn(9n))).toBe(false);
  expect(keeper.record.chunked.size).toBe(0);
});

test("an incomplete row that gets another key is due under that, until it was copied as of where the stream is", () => {
  const { keeper, copies, seePart } = begun();
  copies.madeIncrementally(tableShape(shape), false, lsn(9n), [["3"], ["8"]]);
  expect(keeper.record.copied).toBe(copied);
  const due = (at: Lsn) =>
    copies
      .due(at)
      .flatMap(({ keys }) => keys.flat())
      .toSorted();
  // Rows that are complete, and keep what they have where they are.
  seePart(4, undefined, lsn(10n));
  seePart(3, undefined, lsn(10n));
  seePart(5, 4, lsn(10n));
  expect(due(lsn(11n))).toEqual(["3", "8"]);
  seePart(6, 3, lsn(11n));
  seePart(7, 6, lsn(12n));
  expect(due(lsn(13n))).toEqual(["3", "6", "7", "8"]);
  copies.completed(name, [["3"], ["6"], ["7"], ["8"]], lsn(20n));
  expect([copies.takeDue(lsn(13n)), copies.awaited(lsn(13n))]).toEqual([false, lsn(20n)]);
  // Under its old key it was not there any more.
  seePart(9, 7, lsn(15n));
  // What was copied under this key is gone: another row has it.
  seePart(8, 3, lsn(16n));
  expect(copies.takeDue(lsn(17n))).toBe(true);
  expect(due(lsn(17n))).toEqual(["8", "9"]);
  copies.completed(name, [["8"], ["9"]], lsn(22n));
  expect(copies.takeDue(lsn(21n))).toBe(false);
  // The next run asks for all that the stream has not passed.
  expect(keeper.record.chunked.get(name)?.incomplete.list().length).toBe(5);
  expect(copies.takeDue(lsn(22n))).toBe(false);
  expect(keeper.record.chunked.size).toBe(0);
});

test("a row that takes another's key before the point of a whole copy is due once the stream is there", () => {
  const { keeper, copies, seePart } = begun();
  copies.made(tableShape(shape), lsn(9n));
  seePart(3);
  seePart(4, 4);
  expect(copies.awaited(lsn(4n))).toBeNull();
  seePart(5, 6);
  expect(copies.awaited(lsn(4n))).toBe(lsn(9n));
  expect(copies.takeDue(lsn(9n))).toBe(true);
  expect(copies.due(lsn(9n))).toEqual([{ name, keys: [["5"]] }]);
  // Nothing of it is left where the stream was there already, or none follows.
  copies.forget(name);
  copies.made(tableShape(shape), lsn(1n));
  expect(keeper.record.chunked.size).toBe(0);
  keeper.change({ log: "copies of something" });
  copies.made(tableShape(shape), lsn(9n));
  expect(keeper.record.chunked.size).toBe(0);
});

test("what a copy records is taken back, and a table that is not selected any more stays forgotten", () => {
  const { keeper, copies } = begun();
  const make = (isFirst: boolean) =>
    copies.undoable(name, () => copies.madeIncrementally(tableShape(shape), isFirst, lsn(7n), [["3"]]));
  const takeBack = make(true);
  expect(keeper.record.copied.get(name)?.lsn).toBe(lsn(7n));
  expect(keeper.record.chunked.get(name)?.phase).toBe("joined");
  takeBack();
  expect(keeper.record.copied.get(name)).toEqual({ identity: "", lsn: lsn(1n) });
  expect(keeper.record.chunked.has(name)).toBe(false);

  for (const isFirst of [true, false]) {
    const takeBackLater = make(isFirst);
    keeper.change({ copied: new Map(), chunked: new Map() });
    takeBackLater();
    expect(keeper.record.copied.has(name)).toBe(false);
    expect(keeper.record.chunked.has(name)).toBe(false);
    keeper.change({ copied });
  }
});

test("ranges that a small table's only chunk made needless do not come back once the table was deselected", async () => {
  const { keeper, copies } = begun();
  keeper.change({ copied: new Map() });
  copies.begin(tableShape(shape), true, false);
  copies.endRange(name, range, lsn(1n), 100);
  const interrupted = keeper.record.chunked.get(name);
  const make = () => copies.undoable(name, () => copies.made(tableShape(shape), lsn(1n)));
  make()();
  expect(keeper.record.copied.has(name)).toBe(false);
  expect(keeper.record.chunked.get(name)).toBe(interrupted);

  const takeBack = make();
  expect(keeper.record.chunked.has(name)).toBe(false);
  await keeper.prepare([], []);
  takeBack();
  expect(copies.begin(tableShape(shape), true, false)?.done).toEqual([]);
});
