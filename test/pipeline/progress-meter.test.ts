// What is counted of copies that are made in parts, undone, and gone on with.

import { expect, test } from "bun:test";
import { formatLsn } from "../../src/change/lsn.ts";
import type { TableShape } from "../../src/change/relation.ts";
import { ProgressMeter } from "../../src/pipeline/progress-meter.ts";
import {
  batches,
  type FixtureTransaction,
  relation,
  tableShape,
  transaction,
} from "../support/rows/batch-fixture.ts";

function shape(name: string, estimatedRows = 0): TableShape {
  return { ...tableShape(relation(name, [["id", 23, "integer"]])), estimatedRows };
}

test("what a copy took is counted once, however often the table is begun", () => {
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const { snapshot } = meter.progress;
  meter.began(shape("t"));
  meter.copying(shape("t"), 100, 0);
  meter.copying(shape("t"), 120, 200);
  expect(snapshot).toMatchObject({ rows: 120, bytes: 200, tablesDone: 0, copying: 1 });
  meter.gaveUp(shape("t"), "locked");
  expect(snapshot).toMatchObject({ rows: 0, bytes: 0, copying: 0 });
  // It goes on, and tells what it took before.
  meter.began(shape("t"));
  meter.copying(shape("t"), 120, 0);
  meter.copying(shape("t"), 150, 300);
  meter.copied(shape("t"));
  expect(snapshot).toMatchObject({ rows: 150, bytes: 300, tablesDone: 1, copying: 0 });
});

test("the copy is in the phase of the table that is the least far", () => {
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const { snapshot } = meter.progress;
  for (const table of ["a", "b"]) meter.expects(shape(table, 10));
  meter.began(shape("a"));
  meter.inPhase(shape("a"), "Writing");
  expect(snapshot.phase).toBe("Reading");
  meter.inPhase(shape("b"), "Finishing");
  expect(snapshot.phase).toBe("Writing");
  meter.copied(shape("a"));
  expect(snapshot.phase).toBe("Finishing");
  meter.gaveUp(shape("b"), "locked");
  expect(snapshot.phase).toBe("Reading");
});

test("tables are counted once each, however often and by whatever way they are copied", () => {
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const { snapshot } = meter.progress;
  for (const [table, guess] of [
    ["a", 10],
    ["b", 20],
    ["c", 30],
  ] as const)
    meter.expects(shape(table, guess));
  meter.copied(shape("a"));
  // Begun beside the stream, and made between two batches.
  meter.gaveUp(shape("b"));
  expect(snapshot).toMatchObject({ tables: 2, tablesDone: 1, estimatedRows: 40 });
  meter.expects(shape("b", 25));
  meter.copied(shape("b"));
  expect(snapshot).toMatchObject({ tables: 3, tablesDone: 2, estimatedRows: 65 });
  // It has missed changes, and is copied once more.
  meter.expects(shape("a", 11));
  expect(snapshot).toMatchObject({ tables: 3, tablesDone: 1, estimatedRows: 66 });
  meter.copied(shape("a"));
  meter.copied(shape("c"));
  expect(snapshot).toMatchObject({ tables: 3, tablesDone: 3 });
});

test("the oldest commit that is not durable, of transactions in many batches too", async () => {
  const orders = relation("orders", [["id", 23, "integer"]]);
  const row = (id: number) => ({ kind: "insert", relation: orders, after: [String(id)] }) as const;
  const transactions = [
    transaction(1, [row(1)]),
    transaction(2, [row(2), row(3), row(4)]),
    transaction(3, [row(5)]),
  ];
  const commitMs = (index: number) => Number(transactions[index]!.commitTimeUs / 1000n);
  let clockMs = 1_000;
  using meter = new ProgressMeter(
    () => {},
    () => 0,
    () => ({ retainedBytes: 5, safeBytes: null, warning: null }),
    undefined,
    () => commitMs(2) + 70,
    () => clockMs,
  );
  const { progress } = meter;
  const behind = () => {
    meter.flush();
    return progress.behindSinceMs;
  };
  meter.resumesAt({ resumeLsn: transactions[0]!.commitLsn, partial: null, lastVersion: 0n });
  expect([behind(), progress.resumeLsn]).toEqual([null, formatLsn(transactions[0]!.commitLsn)]);
  const durable = (index: number) =>
    meter.durable({ resumeLsn: transactions[index]!.endLsn, partial: null, lastVersion: 0n }, 1, 1);
  const inTwos = batches(transactions, { perBatch: 2 });
  for (const batch of inTwos) {
    await meter.write(batch, async () => {
      clockMs += 30;
    });
  }
  expect(inTwos.map(({ count }) => count)).toEqual([2, 2, 1]);
  // The first batch is of the first transaction and the beginning of the second.
  expect(behind()).toBe(commitMs(0));
  durable(0);
  expect([behind(), progress.latencyMs]).toEqual([commitMs(0), null]);
  durable(1);
  expect([behind(), progress.latencyMs]).toEqual([commitMs(2), 70 + commitMs(2) - commitMs(1)]);
  durable(2);
  expect([behind(), progress.latencyMs]).toEqual([null, 70]);
  const { rows, write, durable: flush, latency } = progress.batches;
  expect(rows.sum).toBe(5);
  expect(write.sum).toBeCloseTo(0.09);
  expect(latency.sum).toBeCloseTo((2 * 70 + 1) / 1000);
  // Handed over at 1,000 and at 1,060 ms, and durable at 1,090; the batch between is of the first one's last transaction.
  expect(flush.sum).toBeCloseTo(0.09 + 0.03);
  expect([rows, write, flush, latency].map(({ counts }) => counts.reduce((a, b) => a + b))).toEqual([
    3, 3, 2, 2,
  ]);
  expect(progress.slot).toEqual({ retainedBytes: 5, safeBytes: null, warning: null });
});

test("what is of no time is not behind since the beginning of time", async () => {
  const orders = relation("orders", [["id", 23, "integer"]]);
  const row = (id: number) => ({ kind: "insert", relation: orders, after: [String(id)] }) as const;
  using meter = new ProgressMeter(
    () => {},
    () => 0,
  );
  const behind = async (...transactions: readonly FixtureTransaction[]) => {
    for (const batch of batches(transactions)) await meter.write(batch, async () => {});
    meter.flush();
    return meter.progress.behindSinceMs;
  };
  const timeless = transaction(1, [row(1)], 0n);
  expect(await behind(timeless)).toBeNull();
  const known = transaction(3, [row(3)]);
  expect(await behind(transaction(2, [row(2)], 0n), known)).toBe(Number(known.commitTimeUs / 1000n));
  meter.durable({ resumeLsn: known.endLsn, partial: null, lastVersion: 0n }, 1, 1);
  expect(meter.progress.latencyMs).toBeLessThan(Date.now() - 1_600_000_000_000);
  // A shape behind a commit ends where its batch ends.
  const [commit, shape] = [transaction(4, [row(4)]), transaction(5, [row(5)], 0n)];
  expect(await behind(commit, shape)).toBe(Number(commit.commitTimeUs / 1000n));
  meter.durable({ resumeLsn: shape.commitLsn, partial: null, lastVersion: 0n }, 1, 1);
  expect(await behind()).toBeNull();
  expect(meter.progress.latencyMs).toBeLessThan(Date.now() - 1_600_000_000_000);
});

test("is told when something is new, and only then", async () => {
  const orders = relation("orders", [["id", 23, "integer"]]);
  let lag = 0;
  const told: (number | null)[] = [];
  using meter = new ProgressMeter(
    ({ batches: { rows } }) => void told.push(rows.sum),
    () => lag,
  );
  meter.flush();
  meter.flush();
  expect(told).toEqual([0]);
  const row = { kind: "insert", relation: orders, after: ["1"] } as const;
  for (const batch of batches([transaction(1, [row])])) await meter.write(batch, async () => {});
  meter.flush();
  meter.flush();
  lag = 7;
  meter.flush();
  meter.flush();
  expect(told).toEqual([0, 1, 1]);
});
