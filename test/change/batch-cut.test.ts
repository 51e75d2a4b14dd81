// A batch that is cut at an LSN: both parts together are the batch, and each is as if it had come alone.

import { expect, test } from "bun:test";
import { BatchBuilder } from "../../src/change/batch-builder.ts";
import { cutBatch } from "../../src/change/batch-cut.ts";
import { type ChangeBatch, ChangeKind } from "../../src/change/change-batch.ts";
import { lsn } from "../../src/change/lsn.ts";

const relation = {
  id: 1,
  schema: "s",
  name: "t",
  replicaIdentity: "default",
  columns: [],
  key: [],
  withheld: [],
} as const;

/** Transactions that commit at 10, 20, 30 … with so many changes each. */
function batchOf(...sizes: readonly number[]): ChangeBatch {
  const builder = new BatchBuilder("text", lsn(1n));
  builder.addRelation(relation);
  let byte = 0;
  sizes.forEach((size, t) => {
    const at = BigInt(t + 1) * 10n;
    builder.begin(at, at * 100n, t + 7);
    for (let i = 0; i < size; i++) {
      builder.reserve(3);
      const start = builder.arenaEnd;
      builder.arena.fill(++byte, start, start + 3);
      builder.arenaEnd += 3;
      builder.add(ChangeKind.update, 0, 0, i, start, start + 1, start + 1, start + 3);
    }
    builder.commit(lsn(at + 5n));
  });
  return builder.takeComplete().batch;
}

const read = (batch: ChangeBatch | null) =>
  batch &&
  Array.from({ length: batch.count }, (_, i) => [
    batch.arena.slice(batch.oldStart[i], batch.oldEnd[i]).join(),
    batch.arena.slice(batch.newStart[i], batch.newEnd[i]).join(),
    batch.ordinal[i],
    batch.transactions.commitLsn[batch.transaction[i]!],
    batch.transactions.xid[batch.transaction[i]!],
  ]);

test("both parts together are the whole, and the cut is where it should be", () => {
  const whole = read(batchOf(2, 1, 3));
  for (const [at, size] of [
    [11n, 2],
    [20n, 2],
    [21n, 3],
    [30n, 3],
  ] as const) {
    const { before, after, isReached } = cutBatch(batchOf(2, 1, 3), lsn(at));
    expect([...read(before)!, ...read(after)!]).toEqual(whole!);
    expect(before?.count).toBe(size);
    expect(before?.resumeLsn).toBe(lsn(at));
    expect(after?.resumeLsn).toBe(lsn(35n));
    expect(before?.transactions.count).toBe(size === 2 ? 1 : 2);
    expect(isReached).toBe(true);
  }
});

test("a batch that is all before or all after stays as it is", () => {
  const batch = batchOf(2, 1);
  expect(cutBatch(batch, lsn(10n))).toEqual({ before: null, after: batch, isReached: true });
  expect(cutBatch(batch, lsn(25n))).toEqual({ before: batch, after: null, isReached: true });
  expect(cutBatch(batch, lsn(26n))).toEqual({ before: batch, after: null, isReached: false });
});

test("a transaction that goes on in the next batch is not yet at its end", () => {
  const batch = { ...batchOf(2, 1), endsInTransaction: true };
  expect(cutBatch(batch, lsn(25n)).isReached).toBe(false);
  expect(cutBatch(batch, lsn(20n))).toMatchObject({ isReached: true, before: { endsInTransaction: false } });
});

test("parts of a transaction in progress are before every LSN until it commits", () => {
  const part = (outcome: "open" | "committed", commitLsn: bigint | null) => ({
    ...batchOf(2),
    inProgress: { xid: 7, outcome, commitLsn: commitLsn === null ? null : lsn(commitLsn) },
  });
  expect(cutBatch(part("open", null), lsn(5n))).toMatchObject({ after: null, isReached: false });
  expect(cutBatch(part("committed", 10n), lsn(10n))).toMatchObject({ before: null, isReached: true });
  expect(cutBatch(part("committed", 10n), lsn(11n))).toMatchObject({ after: null, isReached: false });
});
