// What is recorded of a table that is copied again, in ranges, to a webhook, and for how long. Whole copies are in tasks-beside.test.ts.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { DividedCopies } from "../../../../src/sink/delivery/copy/divided-copies.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { relation, tableShape, tupleBytes, unchanged } from "../../../support/batch-fixture.ts";

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
  const empty = { log: null, windowEnds: [], reached: null, versionSteps: [], divided: new Map() };
  const record = { ...empty, checkpoint, origin: { lsn: lsn(1n), version: 1n }, copied };
  const keeper = new RecordKeeper({ save: async () => {} }, record, new SavedTables(record), () => 0);
  const copies = new DividedCopies(keeper, { sends: () => true }, () => clock.ms);
  const seePart = (id: number) => {
    const arena = tupleBytes([String(id), unchanged]);
    const [before, after] = [new TupleView(), new TupleView()];
    before.read(arena, 0, 0);
    after.read(arena, 0, arena.length);
    copies.see({ table, arena, before, after, commitLsn: lsn(5n) });
  };
  return { clock, keeper, copies, seePart };
}

test("ranges, and rows that came in part, are kept for whoever takes the copy up, and not for ever", () => {
  const { clock, keeper, copies, seePart } = begun();
  expect(copies.beginAgain(tableShape(shape))).toEqual({ ranges: [], rows: 0 });
  seePart(3);
  copies.add(name, range, lsn(7n), 100);
  clock.ms = 10_000_000;
  copies.takeDue(lsn(8n));
  copies.letGo(name);
  expect(copies.beginAgain(tableShape(shape))).toEqual({ ranges: [range], rows: 100 });
  expect(copies.owedOf(name)).toEqual([["3"]]);
  copies.letGo(name);
  copies.takeDue(lsn(9n));
  clock.ms += 899_000;
  copies.takeDue(lsn(9n));
  expect(keeper.record.divided.size).toBe(1);
  clock.ms += 1_000;
  copies.takeDue(lsn(9n));
  expect(keeper.record.divided.size).toBe(0);
});

test("a table that was rewritten begins anew, and one of which too much comes in part is not recorded any more", () => {
  const { keeper, copies, seePart } = begun();
  copies.beginAgain(tableShape(shape));
  copies.add(name, range, lsn(7n), 100);
  const rewritten = { ...tableShape(shape), storage: "2" };
  expect(copies.beginAgain(rewritten)).toEqual({ ranges: [], rows: 0 });
  for (let id = 0; id <= 40_000; id++) seePart(id);
  expect(copies.isOpen(rewritten, "again")).toBe(false);
  expect(keeper.record.divided.size).toBe(0);
  // That it is copied counts still.
  expect(keeper.record.copied).toBe(copied);
  // Nor is it where rows of its first copy are owed.
  copies.begin(tableShape(shape), false);
  expect(copies.beginAgain(tableShape(shape))).toBeNull();
});
