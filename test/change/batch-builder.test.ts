import { describe, expect, test } from "bun:test";
import { BatchBuilder } from "../../src/change/batch-builder.ts";
import { bytesOfTuples, type ChangeBatch, ChangeKind } from "../../src/change/change-batch.ts";
import { lsn } from "../../src/change/lsn.ts";
import { relation } from "../support/rows/batch-fixture.ts";

const orders = relation("orders", [["id", 23, "integer"]]);

/** Adds an insert whose tuple is the byte `value`. */
function insert(builder: BatchBuilder, value: number, ordinal: number): void {
  const index = builder.relations.indexOf(orders);
  const at = index < 0 ? builder.addRelation(orders) : index;
  builder.reserve(1);
  const start = builder.arenaEnd;
  builder.arena[start] = value;
  builder.arenaEnd = start + 1;
  builder.add(ChangeKind.insert, 0, at, ordinal, 0, 0, start, start + 1);
}

const values = (batch: ChangeBatch) =>
  Array.from({ length: batch.count }, (_, i) => batch.arena[batch.newStart[i]!]);
const commits = (batch: ChangeBatch) =>
  Array.from({ length: batch.count }, (_, i) => batch.transactions.commitLsn[batch.transaction[i]!]);

describe("a builder", () => {
  test("hands out complete transactions and keeps the open one", () => {
    const builder = new BatchBuilder("text", lsn(1n));
    builder.begin(10n, 1n, 1);
    insert(builder, 1, 0);
    insert(builder, 2, 1);
    builder.commit(lsn(20n));
    builder.begin(30n, 2n, 2);
    insert(builder, 3, 0);
    const { batch, rest } = builder.takeComplete();
    expect(values(batch)).toEqual([1, 2]);
    expect(batch.endsInTransaction).toBe(false);
    expect(batch.resumeLsn).toBe(lsn(20n));
    expect(batch.transactions.count).toBe(1);
    expect(batch.transactions.endLsn[0]).toBe(20n);

    insert(rest, 4, 1);
    rest.commit(lsn(40n));
    const second = rest.takeComplete().batch;
    expect(values(second)).toEqual([3, 4]);
    expect(commits(second)).toEqual([30n, 30n]);
    expect([...second.ordinal.subarray(0, 2)]).toEqual([0, 1]);
    expect(second.resumeLsn).toBe(lsn(40n));
  });

  test("hands out a large transaction in pieces that are marked as such", () => {
    const builder = new BatchBuilder("text", lsn(1n));
    builder.begin(10n, 1n, 1);
    insert(builder, 1, 0);
    const { batch, rest } = builder.takeAll();
    expect(batch.endsInTransaction).toBe(true);
    expect(batch.resumeLsn).toBe(lsn(1n));
    expect(batch.transactions.endLsn[0]).toBe(0n);
    insert(rest, 2, 1);
    rest.commit(lsn(20n));
    const last = rest.takeComplete().batch;
    expect(last.endsInTransaction).toBe(false);
    expect(commits(last)).toEqual([10n]);
    expect(last.resumeLsn).toBe(lsn(20n));
  });

  test("omits empty transactions, and still advances past them", () => {
    const builder = new BatchBuilder("text", lsn(1n));
    builder.begin(10n, 1n, 1);
    builder.commit(lsn(20n));
    expect(builder.completeCount).toBe(0);
    const { batch } = builder.takeAll();
    expect(batch.transactions.count).toBe(0);
    expect(batch.resumeLsn).toBe(lsn(20n));
  });

  test("never goes back before its start", () => {
    const builder = new BatchBuilder("text", lsn(100n));
    builder.begin(10n, 1n, 1);
    builder.commit(lsn(20n));
    expect(builder.resumeLsn).toBe(lsn(100n));
  });

  test("grows beyond its first size without losing a byte", () => {
    const builder = new BatchBuilder("text", lsn(1n));
    for (let t = 0; t < 200; t++) {
      builder.begin(BigInt(t + 10), 1n, t);
      for (let i = 0; i < 20; i++) insert(builder, (t * 20 + i) % 251, i);
      builder.commit(lsn(BigInt(t + 11)));
    }
    const { batch } = builder.takeComplete();
    expect(batch.count).toBe(4000);
    expect(values(batch)).toEqual(Array.from({ length: 4000 }, (_, i) => i % 251));
    expect(batch.transactions.count).toBe(200);
    expect(commits(batch)[3999]).toBe(209n);
  });
});

test("a TRUNCATE and a shape take no bytes, wherever they are", () => {
  const builder = new BatchBuilder("text", lsn(1n));
  builder.begin(10n, 1n, 1);
  // A shape.
  builder.addRelation(orders);
  builder.add(ChangeKind.shape, 0, 0, 0, 0, 0, 0, 0);
  insert(builder, 1, 1);
  insert(builder, 2, 2);
  // Its place in the statement that has brought it is where the end of a tuple would be.
  builder.add(ChangeKind.truncate, 0, 0, 3, 0, 0, 1, 1);
  builder.add(ChangeKind.shape, 0, 0, 4, 0, 0, 0, 0);
  builder.commit(lsn(20n));
  const { batch } = builder.takeComplete();
  expect([0, 1, 2, 3, 4, 5].map((count) => bytesOfTuples(batch, count))).toEqual([0, 0, 1, 2, 2, 2]);
  expect(bytesOfTuples(batch)).toBe(2);
});
