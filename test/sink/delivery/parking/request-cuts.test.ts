// Cuts: of requests of the stream they are held, of requests of copies they are found when these come again.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import { RequestCuts } from "../../../../src/sink/delivery/parking/request-cuts.ts";
import type { RowsRequest } from "../../../../src/sink/delivery/parking/request-parts.ts";
import { passedPoint } from "../../../../src/sink/delivery/parking/row-place.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";

function request(n: number, isOfCopy: boolean): RowsRequest {
  return {
    schema: "public",
    table: "t",
    body: new TextEncoder().encode("[1,2,3]"),
    rows: 3,
    idempotencyKey: `018bcfe5-6803-7b54-a1b2-${String(n).padStart(12, "0")}`,
    touches: [1, 2, 3],
    barrier: false,
    position: null,
    rowMarks: {
      ends: [2, 4, 6],
      touchEnds: null,
      isBare: false,
      isOfCopy,
      commitLsns: Array(3).fill(lsn(5n)),
      steps: [0, 4, 8],
      versions: [5, 5, 5],
      keyColumns: ["id"],
      columnsAt: [[]],
      commitTimesUs: [0, 0, 0],
    },
  };
}

test("cuts of copies stay in the state, and come back when they are needed", async () => {
  const parking = new MemoryParking();
  const calls: string[] = [];
  const store = parkingStoreOf(async (call) => {
    calls.push(call.kind);
    return parking.answer(call);
  });
  const first = new RequestCuts(store);
  const made = await first.cut(request(1, true), [[0], [1, 2]]);
  await first.cut(request(2, false), [[0, 1], [2]]);
  first.passed(passedPoint({ resumeLsn: lsn(6n), partial: null, lastVersion: 1n }));
  expect([first.has(request(1, true).idempotencyKey), first.has(request(2, false).idempotencyKey)]).toEqual([
    true,
    false,
  ]);
  const second = new RequestCuts(store);
  await second.load();
  expect(calls.filter((kind) => kind === "find-cut")).toEqual([]);
  const again = await second.partsOf(request(1, true));
  expect(again?.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
    made.map(({ idempotencyKey }) => idempotencyKey),
  );
  expect(calls.filter((kind) => kind === "find-cut")).toEqual(["find-cut"]);
  expect(await second.partsOf(request(3, true))).toBeNull();
  expect(calls.filter((kind) => kind === "find-cut")).toEqual(["find-cut"]);
});
