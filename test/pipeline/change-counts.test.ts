// How many changes of each table a batch has, and which of them are committed.

import { expect, test } from "bun:test";
import { BatchBuilder } from "../../src/change/batch-builder.ts";
import { type ChangeBatch, ChangeKind, type InProgress } from "../../src/change/change-batch.ts";
import { type Lsn, lsn } from "../../src/change/lsn.ts";
import { ChangeCounter } from "../../src/pipeline/change-counts.ts";
import { relation } from "../support/rows/batch-fixture.ts";

const [a, b] = [1, 2].map((id) => relation(`t${id}`, [["id", 23, "integer"]], { id, key: [0] }));
const other = { ...a! };

interface Transaction {
  readonly timeUs: bigint;
  /** Of each change, the index of its table: t1, t2, or t1 in another shape. */
  readonly tables: readonly number[];
  readonly kind?: ChangeKind;
}

function batch(
  transactions: readonly Transaction[],
  inProgress?: Omit<InProgress, "commitLsn">,
): ChangeBatch {
  const builder = new BatchBuilder("text", lsn(1n));
  for (const each of [a!, b!, other]) builder.addRelation(each);
  let at = 1n;
  for (const { timeUs, tables, kind = ChangeKind.insert } of transactions) {
    builder.begin(++at, timeUs, 7);
    for (const [i, table] of tables.entries()) builder.add(kind, 0, table, i, 0, 0, 0, 0);
    builder.commit(lsn(++at));
  }
  const taken = builder.takeAll().batch;
  return inProgress ? { ...taken, inProgress: { ...inProgress, commitLsn: null as Lsn | null } } : taken;
}

class Rig {
  readonly #counter = new ChangeCounter();

  /** The tables that have changed by the batch, with their changes and the time of the last one. */
  count(batch: ChangeBatch): Record<string, readonly [number, bigint]> {
    const changed = new Set<number>();
    this.#counter.count(batch, (id) => changed.add(id));
    return Object.fromEntries(
      [...changed].map((id) => {
        const { changes, lastCommitUs } = this.#counter.of(id);
        return [id, [changes, lastCommitUs] as const];
      }),
    );
  }
}

test("changes are counted by table, with the commit time of the last one", () => {
  const several = batch([
    { timeUs: 10n, tables: [0, 1, 0] },
    { timeUs: 20n, tables: [1, 1] },
    { timeUs: 30n, tables: [2] },
  ]);
  const rig = new Rig();
  expect(rig.count(several)).toEqual({ 1: [3, 30n], 2: [3, 20n] });
  expect(rig.count(batch([{ timeUs: 40n, tables: [1] }]))).toEqual({ 2: [4, 40n] });
});

test("a shape is no change", () => {
  const shape = { timeUs: 0n, tables: [0], kind: ChangeKind.shape };
  expect(new Rig().count(batch([shape]))).toEqual({});
  const around = batch([{ timeUs: 10n, tables: [0, 0] }, shape, { timeUs: 20n, tables: [1, 1, 0] }, shape]);
  expect(new Rig().count(around)).toEqual({ 1: [3, 20n], 2: [2, 20n] });
});

test("a transaction in progress counts when it is committed, at its commit's time", () => {
  const rig = new Rig();
  expect(rig.count(batch([{ timeUs: 10n, tables: [0, 0] }], { xid: 7, outcome: "open" }))).toEqual({});
  expect(rig.count(batch([{ timeUs: 15n, tables: [1] }]))).toEqual({ 2: [1, 15n] });
  const end = batch([{ timeUs: 20n, tables: [1] }], { xid: 7, outcome: "committed" });
  expect(rig.count(end)).toEqual({ 1: [2, 20n], 2: [2, 20n] });
});

test("the last part of a transaction in progress may be empty", () => {
  const rig = new Rig();
  rig.count(batch([{ timeUs: 10n, tables: [0] }], { xid: 7, outcome: "open" }));
  expect(rig.count(batch([], { xid: 7, outcome: "committed" }))).toEqual({ 1: [1, 10n] });
});

test("a transaction that is rolled back does not count", () => {
  const rig = new Rig();
  const part = batch([{ timeUs: 10n, tables: [0] }], { xid: 7, outcome: "open" });
  rig.count(part);
  expect(rig.count(batch([], { xid: 7, outcome: "aborted" }))).toEqual({});
  rig.count(part);
  expect(rig.count(batch([], { xid: 7, outcome: "committed" }))).toEqual({ 1: [1, 10n] });
});
