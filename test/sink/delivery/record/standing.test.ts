// How far a sink of messages may have received changes, by its record.

import { expect, test } from "bun:test";
import { reachOf } from "../../../../src/change/checkpoint.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import { begunCopy } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { begunRecord, type SinkRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { standing } from "../../../../src/sink/delivery/record/standing.ts";

const checkpoint = { resumeLsn: lsn(100n), partial: null, lastVersion: 1n };
const at = (commitLsn: bigint, ordinal = 0) => ({ commitLsn: lsn(commitLsn), ordinal });
const reachWith = (part: Partial<SinkRecord>) =>
  reachOf(standing({ ...begunRecord({ ...checkpoint, log: "7/1" }), ...part }));

test("it is the checkpoint where nothing was sent beyond it", () => {
  const record = begunRecord({ ...checkpoint, log: "7/1" });
  expect(standing(record)).toEqual({ ...checkpoint, log: "7/1" });
  expect(standing({ ...record, reached: at(99n, 5) })).toEqual({ ...checkpoint, log: "7/1" });
  const partial = { ...checkpoint, partial: at(120n, 3) };
  expect(standing({ ...record, checkpoint: partial, reached: at(120n, 3) })).toEqual({
    ...partial,
    log: "7/1",
  });
});

test("it covers every place of the record", () => {
  expect(reachWith({})).toBe(lsn(100n));
  expect(reachWith({ reached: at(120n) })).toBe(lsn(121n));
  expect(reachWith({ windowEnds: [at(110n), at(130n)], reached: at(120n) })).toBe(lsn(131n));
  expect(reachWith({ versionSteps: [{ behind: at(140n), version: 9n }] })).toBe(lsn(141n));
  expect(reachWith({ checkpoint: { ...checkpoint, partial: at(150n) } })).toBe(lsn(151n));
  // A copy has what was committed before its point.
  expect(reachWith({ copied: new Map([["public.t", { identity: "", lsn: lsn(160n) }]]) })).toBe(lsn(160n));
  // So have the ranges of one that is not finished.
  const points = { first: lsn(160n), last: lsn(170n) };
  expect(reachWith({ chunked: new Map([["public.t", { ...begunCopy("mark"), points }]]) })).toBe(lsn(170n));
  const origin = { version: 9, timeUs: 9, lsn: lsn(180n) };
  expect(reachWith({ chunked: new Map([["public.t", { ...begunCopy("mark"), origin }]]) })).toBe(lsn(180n));
});
