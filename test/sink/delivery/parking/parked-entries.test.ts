// What a run remembers of messages that are parked no more, and for how long.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { ParkedEntries } from "../../../../src/sink/delivery/parking/parked-entries.ts";
import { rowPoint } from "../../../../src/sink/delivery/parking/row-place.ts";
import { parkedEntry, rowAt } from "../../../support/webhook/parked-entry.ts";

const dayMs = 24 * 3_600_000;

const entry = (id: string, place: number, isOfCopy: boolean) => parkedEntry(id, place, [place], { isOfCopy });

test("messages of the stream are forgotten once it has passed them, those of copies after a week in which none stood still, as in the state", async () => {
  const clock = { ms: 0 };
  const earlier = {
    entry: entry("loaded", 1, true),
    isSettled: true,
    isUntried: false,
    mayHaveArrived: false,
    untriedMs: null,
  };
  const store = { load: async () => ({ entries: [earlier], next: null }), sweep: async () => {} };
  const entries = new ParkedEntries({ store, monotonic: () => clock.ms, changed: () => {} });
  await entries.load();
  for (const each of [entry("stream", 5, false), entry("copy", 5, true)]) {
    entries.parked.add(each);
    entries.settle(each);
  }
  const kept = () => [...entries.settled.all()].map(({ id }) => id);
  expect(kept()).toEqual(["loaded", "stream", "copy"]);
  clock.ms = 6 * dayMs;
  entries.sweep(rowAt(5), false, false);
  expect(kept()).toEqual(["loaded", "copy"]);
  const late = entry("late", 6, true);
  entries.parked.add(late);
  entries.settle(late);
  clock.ms = 7 * dayMs;
  entries.sweep(rowAt(7), true, false);
  // The copy stands still, and goes on with what it has begun.
  expect(kept()).toEqual(["loaded", "copy", "late"]);
  clock.ms += dayMs - 1;
  entries.sweep(rowAt(8), false, false);
  expect(kept()).toEqual(["late"]);
});

test("changes of the stream tell how far the source was read, and rows of copies, and of earlier versions, do not", () => {
  const store = { load: async () => ({ entries: [], next: null }), sweep: async () => {} };
  const entries = new ParkedEntries({ store, monotonic: () => 0, changed: () => {} });
  const add = (id: string, place: bigint, isOfCopy = false) =>
    entries.parked.add(parkedEntry(id, 0, [1], { places: [place], isOfCopy }));
  add("earlier", -1_764_000_000_000_000n);
  add("copy", rowPoint(lsn(900n), 3, 5, true).place, true);
  expect(entries.reach).toBe(lsn(0n));
  add("last", rowPoint(lsn(800n), 3, 5, false).place);
  add("change", rowPoint(lsn(700n), 3, 6, false).place);
  expect(entries.reach).toBe(lsn(801n));
  entries.settle(entries.get("last")!);
  expect(entries.reach).toBe(lsn(701n));
});
