// How far the checkpoint may move, and what is remembered of windows that are delivered before an earlier one.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import type { StreamPoint } from "../../../../src/sink/delivery/record/sink-record.ts";
import { WindowLedger } from "../../../../src/sink/delivery/stream/window-ledger.ts";

const pointAt = (n: number): StreamPoint => ({
  resumeLsn: lsn(BigInt(n)),
  partial: null,
  lastVersion: BigInt(n),
  log: "log",
});

/** Adds windows of one row, of which those that `isPending` have a request on its way. Returns what delivers each. */
function closeMany(ledger: WindowLedger, from: number, to: number, isPending: (n: number) => boolean) {
  const delivered = new Map<number, () => void>();
  for (let n = from; n <= to; n++) {
    const window = ledger.open;
    window.changes = 1;
    window.rows = 1;
    window.bytes = 10;
    if (isPending(n)) {
      window.pending = 1;
      delivered.set(n, () => void window.pending--);
    }
    ledger.close(pointAt(n));
  }
  return delivered;
}

test("behind one request that is not delivered, any number of windows is as much as a few", () => {
  const ledger = new WindowLedger();
  const delivered = closeMany(ledger, 1, 100_000, (n) => n === 1 || n === 50_000);
  expect(ledger.size).toBeLessThan(200);
  expect(ledger.advance()).toBeNull();
  delivered.get(1)!();
  expect(ledger.advance()).toEqual({ checkpoint: pointAt(49_999), rows: 49_999, bytes: 499_990 });
  expect(ledger.advance()).toBeNull();
  delivered.get(50_000)!();
  expect(ledger.advance()).toEqual({ checkpoint: pointAt(100_000), rows: 50_001, bytes: 500_010 });
  expect(ledger.isIdle).toBe(true);
});

test("windows that are delivered later are not passed before", () => {
  const ledger = new WindowLedger();
  const delivered = closeMany(ledger, 1, 1_000, () => true);
  for (let n = 1_000; n > 500; n--) delivered.get(n)!();
  closeMany(ledger, 1_001, 3_000, () => false);
  expect(ledger.advance()).toBeNull();
  for (let n = 1; n < 500; n++) delivered.get(n)!();
  expect(ledger.advance()).toMatchObject({ checkpoint: pointAt(499), rows: 499 });
  delivered.get(500)!();
  expect(ledger.advance()).toMatchObject({ checkpoint: pointAt(3_000), rows: 2_501 });
});
