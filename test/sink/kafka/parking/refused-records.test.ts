// Rows whose messages brokers have refused are known when they come again, and are forgotten once they are parked.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import { passedPoint } from "../../../../src/sink/delivery/parking/row-place.ts";
import type { PlannedRow } from "../../../../src/sink/delivery/stream/request-plan.ts";
import { type RowMoment, RowPart, tableMaterial } from "../../../../src/sink/format/idempotency-key.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { TupleView } from "../../../../src/sink/format/values/tuple-view.ts";
import { RecordBatch } from "../../../../src/sink/kafka/client/record-batch.ts";
import { plainHeaders } from "../../../../src/sink/kafka/message-headers.ts";
import { RefusedRecords } from "../../../../src/sink/kafka/parking/refused-records.ts";
import { rowName } from "../../../../src/sink/kafka/parking/row-name.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";

const storeOf = (parking: MemoryParking) => parkingStoreOf(async (call) => parking.answer(call));
const table = { keyMaterial: tableMaterial("public", "t"), identity: [0] };

/** Of the row whose key is one digit. */
function nameOf(moment: RowMoment, snapshot: boolean, key = "1"): string {
  // One column of one byte.
  const arena = new Uint8Array([0, 1, 0, 0, 0, 1, key.charCodeAt(0)]);
  const identity = new TupleView();
  identity.read(arena, 0, arena.length);
  return rowName(table, { arena, identity, after: identity, moment, context: { snapshot } } as PlannedRow);
}

const ofStream = (commitTimeUs: number, ordinal: number) =>
  nameOf({ commitTimeUs, ordinal, part: RowPart.whole }, false);
const ofCopy = (commitTimeUs: number, key?: string) =>
  nameOf({ commitTimeUs, ordinal: 0, part: RowPart.snapshot }, true, key);

test("a change of the stream is named by its place, and a row of a copy or a replay by its key", () => {
  const name = ofStream(5_000, 3);
  expect(ofStream(5_000, 3)).toBe(name);
  // Another change of the row: also one that differs in its last bytes alone.
  expect(ofStream(5_000, 4)).not.toBe(name);
  expect(ofStream(6_000, 3)).not.toBe(name);
  const copied = ofCopy(5_000);
  expect(ofCopy(9_000)).toBe(copied);
  expect(nameOf({ commitTimeUs: 1_000, ordinal: 77, part: RowPart.replay }, true)).toBe(copied);
  expect(ofCopy(5_000, "2")).not.toBe(copied);
});

const at = (ordinal: number) => ({ commitLsn: lsn(5n), ordinal });
const upTo = (ordinal: number) => passedPoint({ resumeLsn: lsn(5n), partial: at(ordinal), lastVersion: 1n });

test("what was refused is known in the next session, until its row is parked or passed", async () => {
  const parking = new MemoryParking();
  const first = new RefusedRecords(storeOf(parking));
  const [one, two] = [ofStream(5_000, 1), ofStream(5_000, 2)];
  await first.add({ name: one, bytes: 900, position: at(1), version: 10, parkedId: null }, "why");
  await first.add({ name: two, bytes: 900, position: at(2), version: 20, parkedId: null }, "why too");
  const next = new RefusedRecords(storeOf(parking));
  await next.load();
  expect([next.reasonOf(one, 900), next.reasonOf(two, 900)]).toEqual(["why", "why too"]);
  await next.forget([one]);
  expect([next.reasonOf(one, 900), [...parking.cuts.keys()]]).toEqual([null, [two]]);
  next.passed(upTo(1));
  expect(next.reasonOf(two, 900)).toBe("why too");
  next.passed(upTo(2));
  expect(next.isEmpty).toBe(true);
});

test("a row of a copy that is smaller when it is read again is not refused for what it was", async () => {
  const parking = new MemoryParking();
  const name = ofCopy(5_000);
  const session = async () => {
    const refused = new RefusedRecords(storeOf(parking));
    await refused.load();
    return refused;
  };
  const row = { name, position: null, version: 1, parkedId: null };
  await (await session()).add({ ...row, bytes: 2_000_000 }, "why");
  const next = await session();
  expect([2_000_000, 2_000_001, 300].map((bytes) => next.reasonOf(name, bytes))).toEqual([
    "why",
    "why",
    null,
  ]);
  // It is still too large.
  await next.add({ ...row, bytes: 1_500_000 }, "why too");
  const last = await session();
  expect([1_500_000, 300].map((bytes) => last.reasonOf(name, bytes))).toEqual(["why too", null]);
});

test("a batch knows the row of its first message, also in halves", () => {
  const batch = new RecordBatch();
  const value = new ByteWriter();
  value.all(new TextEncoder().encode("value"));
  const row = (name: string) => ({ name, bytes: 1, position: null, version: 1, parkedId: null });
  batch.add(null, value, plainHeaders([]));
  batch.add(null, value, plainHeaders([]), row("a"));
  batch.add(null, value, plainHeaders([]), row("b"));
  expect(batch.firstRow).toBeNull();
  const [first, second] = batch.halves();
  expect([first.firstRow, second.firstRow?.name]).toEqual([null, "a"]);
  expect(second.halves().map(({ firstRow }) => firstRow?.name)).toEqual(["a", "b"]);
});
