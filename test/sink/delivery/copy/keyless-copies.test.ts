// Which changes of a table without a key are left out, as its copy brings them.

import { expect, test } from "bun:test";
import { lsn, zeroLsn } from "../../../../src/change/lsn.ts";
import { KeylessCopies } from "../../../../src/sink/delivery/copy/keyless-copies.ts";
import { noTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import type { SinkRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { compileTable } from "../../../../src/sink/format/compiled-table.ts";
import { NativeRowEncoder } from "../../../../src/sink/format/native-row.ts";
import { batches, relation, transaction } from "../../../support/rows/batch-fixture.ts";

const keyless = relation("t", [["v", 25, "text"]], { key: [], replicaIdentity: "full" });
const table = compileTable(keyless, new NativeRowEncoder(keyless, { placeholder: false }));
const transactions = [1, 2].map((number) =>
  transaction(number, [
    { kind: "insert", relation: keyless, after: ["a"] },
    { kind: "update", relation: keyless, before: ["a"], after: ["b"] },
    { kind: "delete", relation: keyless, before: ["b"] },
    { kind: "truncate", relation: keyless },
  ]),
);
const [batch] = batches(transactions);
const none = [false, false, false, false];
const all = [true, true, true, true];

/** Of the changes of both transactions, which a copy brings. `point`: of the copy; null: there is none. */
function brought(point: bigint | null, { isAwaited = false, leavesOut = false, sendsReads = true } = {}) {
  const copied = new Map(point === null ? [] : [["public.t", { identity: "", lsn: lsn(point) }]]);
  const record: SinkRecord = {
    checkpoint: { resumeLsn: zeroLsn, partial: null, lastVersion: 0n },
    log: null,
    origin: { lsn: zeroLsn, version: 0n },
    windowEnds: [],
    reached: null,
    versionSteps: [],
    ...noTables,
    copied,
  };
  const copies = new KeylessCopies({ record, leavesOut: () => leavesOut }, sendsReads);
  if (isAwaited) copies.expect("public.t");
  return Array.from({ length: batch!.count }, (_, i) => copies.brings(batch!, i, table));
}

test("a copy brings what was committed before its point, and nothing from behind it", () => {
  expect(brought(transactions[1]!.commitLsn)).toEqual([...all, ...none]);
  expect(brought(transactions[1]!.commitLsn, { isAwaited: true })).toEqual([...all, ...none]);
  expect(brought(transactions[0]!.commitLsn)).toEqual([...none, ...none]);
});

test("before a first copy nothing comes, and without one everything does", () => {
  expect(brought(null, { isAwaited: true })).toEqual([...all, ...all]);
  expect(brought(0n, { isAwaited: true })).toEqual([...all, ...all]);
  expect(brought(null)).toEqual([...none, ...none]);
  expect(brought(transactions[1]!.commitLsn, { sendsReads: false })).toEqual([...none, ...none]);
});

test("of a table that cannot be read a truncate comes: it removes what an earlier copy brought", () => {
  const some = [true, true, true, false];
  expect(brought(0n, { leavesOut: true })).toEqual([...some, ...some]);
});
