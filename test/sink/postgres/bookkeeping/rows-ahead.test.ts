// Which rows may be of later than a change that the stream brings, behind a copy of rows by their keys.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { RowsAhead } from "../../../../src/sink/postgres/bookkeeping/rows-ahead.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";

const table = relation("t", [["id", 23, "integer"]], { id: 7 });

function begun(point: bigint | null) {
  const ledger = { point: point === null ? null : lsn(point) };
  const ahead = new RowsAhead({ pointOf: () => ledger.point });
  const copied = (keys: readonly string[], at: bigint, to: bigint) => {
    const before = ledger.point;
    ledger.point = lsn(to);
    ahead.copied(
      7,
      keys.map((key) => [key]),
      before,
      lsn(at),
    );
  };
  const mayHold = (key: string, commitLsn: bigint, of = table) => ahead.mayHold(of, [key], lsn(commitLsn));
  return { ledger, ahead, copied, mayHold };
}

test("of a table that stood where the stream does, the rows that were copied, until the stream is there", () => {
  const { copied, mayHold } = begun(5n);
  copied(["1", "2"], 10n, 20n);
  expect(["1", "2", "3"].map((key) => mayHold(key, 15n))).toEqual([true, true, false]);
  expect(mayHold("1", 20n)).toBe(false);
  // Rows of a second copy, made before the stream is behind the first.
  copied(["3"], 16n, 30n);
  expect(["1", "3", "4"].map((key) => mayHold(key, 25n))).toEqual([true, true, false]);
  // And of one that was made behind both.
  copied(["4"], 30n, 40n);
  expect(["1", "3", "4"].map((key) => mayHold(key, 35n))).toEqual([false, false, true]);
});

test("of a table that was ahead before, in a run before this one, or as a whole: any", () => {
  const later = begun(50n);
  later.copied(["1"], 10n, 60n);
  expect(later.mayHold("2", 15n)).toBe(true);
  const none = begun(null);
  expect(none.mayHold("1", 15n)).toBe(false);
  none.copied(["1"], 10n, 20n);
  expect(none.mayHold("2", 15n)).toBe(true);
  const whole = begun(5n);
  whole.copied(["1"], 10n, 20n);
  whole.ahead.copiedWhole(7);
  expect(whole.mayHold("2", 15n)).toBe(true);
});

test("of a table whose keys may have another text: any", () => {
  const { copied, mayHold } = begun(5n);
  copied(["1.0"], 10n, 20n);
  const numeric = relation("t", [["id", 1700, "numeric"]], { id: 7 });
  expect(mayHold("1.00", 15n, numeric)).toBe(true);
});

test("of a table with more rows copied than are kept in memory: any, until the stream is there", () => {
  const { copied, mayHold } = begun(5n);
  const keys = (from: number) => Array.from({ length: 60_000 }, (_, i) => String(from + i));
  copied(keys(0), 10n, 20n);
  expect(mayHold("70000", 15n)).toBe(false);
  copied(keys(100_000), 10n, 30n);
  expect(mayHold("70000", 15n)).toBe(true);
  copied(["1"], 10n, 40n);
  expect(mayHold("70000", 15n)).toBe(true);
  copied(["1"], 40n, 50n);
  expect(["1", "2"].map((key) => mayHold(key, 45n))).toEqual([true, false]);
});
