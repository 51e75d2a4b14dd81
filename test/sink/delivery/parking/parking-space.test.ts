// How much is parked beyond the limits while what is to be sent again waits for the stream.

import { expect, test } from "bun:test";
import { ParkingSpace } from "../../../../src/sink/delivery/parking/parking-space.ts";

const limits = { maxMessages: 2, maxBytes: 100, beyond: { rows: 10, bytes: 1_000 } };
const request = (rows: number, bytes: number) => ({
  schema: "public",
  table: "t",
  idempotencyKey: "key",
  rows,
  body: { length: bytes },
});

test("rows and bytes are counted, whatever requests they come in", () => {
  const parked = { size: 2, bytes: 90 };
  const ofRows = new ParkingSpace("a", limits, parked);
  expect(ofRows.exceed([request(6, 1), request(3, 1)])).toBe(true);
  expect([ofRows.exceed([request(2, 1)]), ofRows.exceed([request(1, 1)])]).toEqual([false, true]);
  expect(ofRows.exceed([request(1, 1)])).toBe(false);
  const ofBytes = new ParkingSpace("a", limits, parked);
  expect([ofBytes.exceed([request(1, 900)]), ofBytes.exceed([request(1, 101)])]).toEqual([true, false]);
});

test("what is beyond is forgotten once there is space again, and not before", () => {
  const parked = { size: 2, bytes: 90 };
  const space = new ParkingSpace("a", limits, parked);
  expect(space.exceed([request(10, 1)])).toBe(true);
  expect([space.for([request(1, 1)]), space.exceed([request(1, 1)])]).toEqual([false, false]);
  parked.size = 1;
  expect([space.for([request(1, 11)]), space.exceed([request(1, 1)])]).toEqual([false, false]);
  expect([space.for([request(1, 10)]), space.exceed([request(10, 1)])]).toEqual([true, true]);
});
