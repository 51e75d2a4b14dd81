// A change counts once, whatever part of the stream comes again.

import { expect, test } from "bun:test";
import type { ChangeBatch, InProgress } from "../../src/change/change-batch.ts";
import { lsn } from "../../src/change/lsn.ts";
import { ChangeCounter } from "../../src/pipeline/change-counts.ts";
import { CountedChanges } from "../../src/pipeline/counted-changes.ts";
import { ProgressMeter } from "../../src/pipeline/progress-meter.ts";
import { batches, relation, transaction } from "../support/rows/batch-fixture.ts";

const orders = relation("orders", [["id", 23, "integer"]]);
const row = (id: number) => ({ kind: "insert", relation: orders, after: [String(id)] }) as const;
const rows = (count: number) => Array.from({ length: count }, (_, i) => row(i));

/** Counts what one attempt gets, and returns what it has counted. */
async function attempt(stream: readonly ChangeBatch[], before: CountedChanges | null) {
  const counted = new CountedChanges(before?.last ?? null);
  const tables = new ChangeCounter();
  using meter = new ProgressMeter(
    () => {},
    () => 0,
    () => null,
    counted,
  );
  for (const batch of stream) {
    const first = counted.take(batch);
    tables.count(batch, () => {}, first);
    await meter.write(batch, async () => {}, first);
  }
  const { rowsIn, bytesIn } = meter.progress;
  return { counted, rowsIn, bytesIn, changes: tables.of(orders.id).changes };
}

test("what comes again counts nothing, and what is behind it counts", async () => {
  const one = [...batches([transaction(1, rows(2))]), ...batches([transaction(2, rows(3))])];
  const first = await attempt(one, null);
  expect(first).toMatchObject({ rowsIn: 5, changes: 5 });
  expect(first.bytesIn).toBeGreaterThan(0);
  const again = await attempt(one, first.counted);
  expect(again).toMatchObject({ rowsIn: 0, bytesIn: 0, changes: 0 });
  // In one batch by now.
  const both = batches([transaction(1, rows(2)), transaction(2, rows(3)), transaction(3, rows(4))]);
  expect(await attempt(both, again.counted)).toMatchObject({ rowsIn: 4, changes: 4 });
});

test("a transaction that was counted in part goes on where that ended", async () => {
  const [whole] = batches([transaction(1, rows(5))]);
  const part = { ...whole!, count: 2, endsInTransaction: true };
  const first = await attempt([part], null);
  expect(first).toMatchObject({ rowsIn: 2, changes: 2 });
  expect(await attempt([whole!], first.counted)).toMatchObject({ rowsIn: 3, changes: 3 });
});

test("a transaction in progress counts when it is committed, and once, whether it comes again in parts or as a whole", async () => {
  const committed = transaction(4, rows(3));
  const [whole] = batches([committed]);
  const part = (outcome: InProgress["outcome"]): ChangeBatch => ({
    ...whole!,
    inProgress: { xid: 9, outcome, commitLsn: outcome === "committed" ? lsn(committed.commitLsn) : null },
  });
  expect(await attempt([part("open"), part("open")], null)).toMatchObject({ rowsIn: 0, changes: 0 });
  expect(await attempt([part("open"), part("aborted")], null)).toMatchObject({ rowsIn: 0, changes: 0 });
  const first = await attempt([part("open"), part("committed")], null);
  expect(first).toMatchObject({ rowsIn: 6, changes: 6 });
  expect(await attempt([part("open"), part("committed")], first.counted)).toMatchObject({
    rowsIn: 0,
    changes: 0,
  });
  expect(await attempt([whole!], first.counted)).toMatchObject({ rowsIn: 0, changes: 0 });
});
