// What people are told of what is parked, by a clock of the test's own.

import { expect, test } from "bun:test";
import { parkedWarner } from "../../../../src/sink/delivery/parking/parked-warning.ts";

test("numbers that change often are told now and then, the last ones too, and nothing twice", () => {
  let nowMs = 0;
  const told: (string | null)[] = [];
  const warn = parkedWarner(
    "c",
    () => nowMs,
    (reason) => told.push(reason?.split(":")[0] ?? null),
  );
  warn(1, 10);
  warn(2, 20);
  warn(3, 30);
  expect(told).toEqual(["1 message is parked (10 bytes)"]);
  for (nowMs = 9_000; nowMs < 60_000; nowMs += 1_000) warn(3, 30);
  expect(told.slice(1)).toEqual(["3 messages are parked (30 bytes)"]);
  warn(0, 0);
  warn(0, 0);
  expect(told.slice(2)).toEqual([null]);
});
