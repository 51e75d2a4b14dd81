import { describe, expect, test } from "bun:test";
import type { Relation, TableShape } from "../../../../src/change/relation.ts";
import { canStreamGoOn } from "../../../../src/sink/delivery/copy/recorded-copies.ts";
import { replayBlocker, replayMoment } from "../../../../src/sink/delivery/copy/replay.ts";
import { areRangesOf, rangesMark, replayMark } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { RowPart } from "../../../../src/sink/format/idempotency-key.ts";
import type { OperationFilter } from "../../../../src/sink/format/message-encoding.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";

const all = { sends: () => true };
const columns = [
  ["id", 20, "bigint"],
  ["v", 25, "text"],
] as const;

const shape = (change: Partial<Relation> = {}, more: Partial<TableShape> = {}): TableShape => ({
  relation: { ...relation("t", columns), ...change },
  primaryKey: ["id"],
  notNull: [],
  isPartitioned: false,
  estimatedRows: 0,
  estimatedBytes: 0,
  storage: "1",
  ...more,
});

describe("which tables can be sent again", () => {
  test("one whose changes tell the row that they are of", () => {
    expect(replayBlocker(shape(), all)).toBeNull();
    expect(replayBlocker(shape({ replicaIdentity: "full" }), all)).toBeNull();
    expect(replayBlocker(shape({ replicaIdentity: "index" }), all)).toBeNull();
  });

  test.each([
    [shape({ key: [] }), "has no key"],
    [shape({ isKeyedByHash: true }), "has no key"],
    [shape({ replicaIdentity: "nothing" }), "NOTHING"],
    [shape({}, { coverage: { excluded: [], isListed: false, isUnpublished: true } }), "not published"],
  ] as const)("no other one (%#)", (table, reason) => {
    expect(replayBlocker(table, all)).toContain(reason);
  });

  // What the stream leaves out of a row that it touches nothing else brings.
  test.each(["read", "create", "update"] as const)(
    "none if the format leaves out each %s, and no copy beside the stream",
    (operation) => {
      const filter: OperationFilter = { sends: (each) => each !== operation };
      expect(replayBlocker(shape(), filter)).toContain("skipped_operations");
      expect(canStreamGoOn(shape().relation, filter)).toBe(false);
      expect(canStreamGoOn(shape().relation, all)).toBe(true);
    },
  );
});

test("rows of a replay have a moment by their version, with the time of its task, and those of another one have another", () => {
  const id = "01980a4e-5f0c-7000-8a51-2f9de1c0a7b3";
  const moment = replayMoment(id, 7);
  expect(replayMoment(id, 7)).toEqual(moment);
  expect(replayMoment(id, 8).ordinal).not.toBe(moment.ordinal);
  expect(moment).toMatchObject({ commitTimeUs: 0x01980a4e5f0c * 1000, part: RowPart.replay });
  expect(moment.ordinal).toBeLessThan(2 ** 32);
  expect(replayMoment("01980a4e-5f0c-7000-8a51-2f9de1c0a7b4", 7).ordinal).not.toBe(moment.ordinal);
  expect(replayMoment("anything", 7).commitTimeUs).toBe(0);
});

test("ranges of a replay are of the table as it is, and neither those of a copy nor of another replay", () => {
  const mark = replayMark(shape(), "one");
  expect(areRangesOf(mark, shape())).toBe(true);
  expect(areRangesOf(rangesMark(shape()), shape())).toBe(true);
  expect(areRangesOf(mark, shape({ id: 77 }))).toBe(false);
  expect(new Set([mark, replayMark(shape(), "other"), rangesMark(shape())]).size).toBe(3);
});
