// Points that are taken while the stream waits: it goes on between two attempts, and the attempts end.

import { expect, test } from "bun:test";
import { zeroLsn } from "../../src/change/lsn.ts";
import { neverAborted } from "../../src/concurrency/until-aborted.ts";
import { atHeldPoint, holdsMs } from "../../src/pipeline/held-point.ts";
import type { StreamEvents } from "../../src/pipeline/stream-events.ts";
import { temporarySlotMs } from "../../src/source/postgres/slot/consistent-point.ts";
import type { SnapshotPoint } from "../../src/source/table-source.ts";

/** Transactions are open whenever the stream waits, and never for long. */
function busySource() {
  let calls = 0;
  const point: SnapshotPoint = { lsn: zeroLsn, timeUs: 0n, log: "", async [Symbol.asyncDispose]() {} };
  return {
    snapshotPoint: (stop: AbortSignal): Promise<SnapshotPoint> =>
      calls++ % 2 === 1
        ? Promise.resolve(point)
        : new Promise((_, reject) => stop.addEventListener("abort", () => reject(stop.reason))),
  };
}

test("where no point can be had in time, the attempts end with what to look at", async () => {
  let attempts = 0;
  const exactlyAt: StreamEvents["exactlyAt"] = async (place, action) => {
    attempts++;
    return (await place()) === null ? null : await action();
  };
  const environment = { source: busySource(), exactlyAt };
  const held = atHeldPoint(environment, neverAborted, async () => {}, [1, 2, 4]);
  await expect(held).rejects.toMatchObject({
    code: "slot_creation_blocked",
    message: expect.stringContaining("within 0.004 s"),
  });
  expect(attempts).toBe(3);
});

test("every attempt is over before the source gives the point up", () => {
  expect(holdsMs.length).toBe(8);
  expect(Math.max(...holdsMs)).toBeLessThan(temporarySlotMs);
});
