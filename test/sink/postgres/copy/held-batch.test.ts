// What is kept of a batch is what it was: each change with its tuples and its place.

import { expect, test } from "bun:test";
import type { ChangeBatch } from "../../../../src/change/change-batch.ts";
import { decodeHeld, encodeHeld } from "../../../../src/sink/postgres/copy/held-batch.ts";
import { batches, relation, transaction, unchanged } from "../../../support/batch-fixture.ts";

const kept = relation("kept", [
  ["id", 23, "integer"],
  ["v", 25, "text"],
]);
const other = relation("other", [["id", 23, "integer"]], { id: 16_500 });

const batch = batches([
  transaction(1, [{ kind: "insert", relation: other, after: ["1"] }]),
  transaction(2, [
    { kind: "insert", relation: kept, after: ["1", "ä'\\"] },
    { kind: "insert", relation: other, after: ["2"] },
    { kind: "update", relation: kept, before: ["1", null], after: ["2", unchanged], oldIsKey: true },
  ]),
  transaction(3, [
    { kind: "delete", relation: kept, before: ["2", null], oldIsKey: true },
    { kind: "truncate", relation: kept },
  ]),
])[0]!;

function changesOf(of: ChangeBatch, indexes: readonly number[]) {
  return indexes.map((i) => {
    const at = of.transaction[i]!;
    const tuple = (from: Uint32Array, to: Uint32Array) => Buffer.from(of.arena.subarray(from[i], to[i]));
    return {
      ...{ kind: of.kind[i], flags: of.flags[i], ordinal: of.ordinal[i] },
      relation: of.relations[of.relation[i]!],
      before: tuple(of.oldStart, of.oldEnd).toString("hex"),
      after: tuple(of.newStart, of.newEnd).toString("hex"),
      commitLsn: of.transactions.commitLsn[at],
      endLsn: of.transactions.endLsn[at],
      timeUs: of.transactions.commitTimeUs[at],
      xid: of.transactions.xid[at],
    };
  });
}

test("some changes of a batch come back as they were", () => {
  const indexes = [1, 3, 4, 5];
  const back = decodeHeld(encodeHeld(batch, indexes));
  expect(back).toMatchObject({
    form: "text",
    count: 4,
    endsInTransaction: false,
    resumeLsn: batch.resumeLsn,
  });
  expect(back.relations).toEqual([kept]);
  expect(back.transactions.count).toBe(2);
  expect(changesOf(back, [0, 1, 2, 3])).toEqual(changesOf(batch, indexes));
});
