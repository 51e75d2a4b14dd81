// What a save of the webhook sink's record writes: what has changed, however many tables have been copied.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import type { ChangedParts, SavedRecord } from "../../../../src/connector/saved-record.ts";
import { begunCopy, withRange } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { parseRecord, type SinkRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { asWhole, withSave } from "../../../support/webhook/memory-record.ts";

const tableCount = 5000;
const identity = "16400 id:int8,customer_id:int8,status:text,total:numeric,placed_at:timestamptz";
const copyAt = (at: bigint) => ({ identity, lsn: lsn(at) });

const record: SinkRecord = {
  checkpoint: { resumeLsn: lsn(1n), partial: null, lastVersion: 1n },
  log: null,
  origin: { lsn: lsn(1n), version: 1n },
  windowEnds: [],
  reached: null,
  versionSteps: [],
  copied: new Map(Array.from({ length: tableCount }, (_, n) => [`public.table_${n}`, copyAt(5n)])),
  chunked: new Map([["public.table_7", withRange(begunCopy("mark"), { from: 0, to: 9 }, lsn(6n), 100)]]),
};

class Store {
  record: SavedRecord | null = null;
  /** Of each save. */
  readonly written: { readonly bytes: number; readonly names: readonly string[] }[] = [];
  fails = false;

  save = async (text: string, parts: ChangedParts = new Map()) => {
    const bytes = [...parts].flat().reduce((sum, each) => sum + (each?.length ?? 0), text.length);
    this.written.push({ bytes, names: [...parts.keys()] });
    // As where the store's answer is lost.
    this.record = withSave(this.record, text, parts);
    if (this.fails) throw new Error("away");
  };

  /** What a next run finds. */
  found(): SinkRecord {
    const stored = this.record && parseRecord(this.record);
    if (stored?.kind !== "begun") throw new Error("nothing was begun");
    return stored.record;
  }
}

function keeperOf(store: Store, saved = noTables) {
  return new RecordKeeper(store, record, new SavedTables(saved), () => 0);
}

test("a save writes what has changed, however many tables there are", async () => {
  const store = new Store();
  const keeper = keeperOf(store);
  await keeper.save();
  expect(store.found()).toEqual(record);
  store.written.length = 0;

  keeper.change({ windowEnds: [{ commitLsn: lsn(7n), ordinal: 3 }] });
  await keeper.save();
  keeper.change({ copied: new Map(record.copied).set("public.table_9", copyAt(8n)) });
  await keeper.save();
  // Keys are noted in place.
  keeper.record.chunked.get("public.table_7")?.incomplete.add(["1"]);
  await keeper.save();
  keeper.change({ chunked: new Map() });
  await keeper.save();
  await keeper.save();
  const nines = ["public.table_9"];
  const sevens = ["public.table_7"];
  expect(store.written.map(({ names }) => names)).toEqual([[], nines, sevens, sevens, []]);
  expect(Math.max(...store.written.map(({ bytes }) => bytes))).toBeLessThan(1000);
  expect(store.found()).toEqual(keeper.record);
});

test("a record that was saved whole is taken over by the next save", async () => {
  const store = new Store();
  await keeperOf(store).save();
  store.record = asWhole(store.record!);
  expect(store.record.text.length).toBeGreaterThan(100 * tableCount);
  const stored = parseRecord(store.record);
  expect(stored).toEqual({ kind: "begun", record, isParted: false });
  await keeperOf(store).save();
  expect(store.record.text.length).toBeLessThan(1000);
  expect(parseRecord(store.record)).toEqual({ kind: "begun", record, isParted: true });
});

test("what a failed save may have written is written again; nothing is saved behind the end, and nothing left of what was forgotten", async () => {
  const store = new Store();
  const keeper = keeperOf(store);
  await keeper.save();
  const { copied } = keeper.record;
  keeper.change({ copied: new Map(copied).set("public.late", copyAt(9n)) });
  store.fails = true;
  await expect(keeper.save()).rejects.toThrow("away");
  keeper.change({ copied });
  store.fails = false;
  await keeper.save();
  expect(store.found()).toEqual(keeper.record);
  await keeper.close();
  const saves = store.written.length;
  keeper.change({ copied: new Map() });
  void keeper.save();
  await keeper.settled();
  expect(store.written.length).toBe(saves);
  await keeper.forget(12n);
  expect(store.record?.parts.size).toBe(0);
  expect(parseRecord(store.record!)).toEqual({ kind: "forgotten", lastVersion: 12n });
});
