// Which keys may have arrived, and for how long a run remembers them.

import { expect, test } from "bun:test";
import type { ParkedEntry } from "../../../../src/connector/parking.ts";
import { ParkedEntries } from "../../../../src/sink/delivery/parking/parked-entries.ts";
import { UncertainKeys } from "../../../../src/sink/delivery/parking/uncertain-keys.ts";
import { parkedEntry, rowAt } from "../../../support/webhook/parked-entry.ts";

const entry = (id: string, place: number, ...hashes: number[]) => parkedEntry(id, place, hashes);

function make() {
  const store = { load: async () => ({ entries: [], next: null }), sweep: async () => {} };
  const clock = { ms: 0 };
  const entries = new ParkedEntries({ store, monotonic: () => clock.ms, changed: () => {} });
  const uncertain = new UncertainKeys(entries);
  const park = (parked: ParkedEntry, isExhausted = false) => {
    if (isExhausted || uncertain.has(parked)) uncertain.add(parked);
    entries.parked.add(parked);
    return parked;
  };
  const has = (...hashes: number[]) => uncertain.has({ schema: "public", table: "t", hashes });
  const sweep = (place: number) => {
    clock.ms += 1e9;
    entries.sweep(rowAt(place), false, false);
  };
  return { entries, park, has, sweep };
}

test("keys are uncertain through what waits behind them, also once that alone is left", () => {
  const { entries, park, has } = make();
  park(entry("refused", 1, 9));
  const first = park(entry("exhausted", 2, 1, 2), true);
  expect([has(1), has(2), has(3), has(9), has(3, 2), has()]).toEqual([true, true, false, false, true, true]);
  park(entry("behind", 3, 2, 3));
  park(entry("behind that", 4, 3, 4));
  entries.settle(first);
  expect([has(2), has(3), has(4), has(9)]).toEqual([true, true, true, false]);
  park(entry("wide", 5));
  expect([has(9), has(77)]).toEqual([true, true]);
});

test("keys are forgotten with the messages that they are of", () => {
  const { entries, park, has, sweep } = make();
  park(entry("refused", 1, 9));
  const both = [park(entry("exhausted", 2, 1, 2), true), park(entry("behind", 3, 2, 3))];
  for (const each of both) entries.settle(each);
  // What comes again behind them may have arrived.
  sweep(1);
  expect([has(1), has(2), has(3)]).toEqual([true, true, true]);
  sweep(3);
  expect([has(1), has(2), has(3), has()]).toEqual([false, false, false, false]);
});
