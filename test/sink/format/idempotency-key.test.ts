// Idempotency keys: their layout, what they depend on, and that they stay what they are from version to
// version.

import { expect, test } from "bun:test";
import { compileTable, tableOrder } from "../../../src/sink/format/compiled-table.ts";
import { IdempotencyKey, RowPart, tableMaterial } from "../../../src/sink/format/idempotency-key.ts";
import { TupleView } from "../../../src/sink/format/values/tuple-view.ts";
import { nextVersion } from "../../../src/sink/format/version-counter.ts";
import { relation, type TextTuple, tupleBytes } from "../../support/rows/batch-fixture.ts";

interface Row {
  readonly tuple: TextTuple;
  readonly time?: number;
  readonly ordinal?: number;
  readonly part?: RowPart;
}

function key(
  rows: readonly Row[],
  schema = "public",
  table = "users",
  columns: readonly number[] = [0],
): string {
  const made = new IdempotencyKey(tableMaterial(schema, table));
  const view = new TupleView();
  for (const { tuple, time = 1_700_000_000_123_456, ordinal = 0, part = RowPart.whole } of rows) {
    const arena = tupleBytes(tuple);
    view.read(arena, 0, arena.length);
    made.addRow(arena, view, columns, { commitTimeUs: time, ordinal, part });
  }
  return made.finish();
}

test("a UUIDv7 of the first row's commit time, the same for ever", () => {
  const made = key([{ tuple: ["1", "a"] }, { tuple: ["2", "b"], time: 1_700_000_009_000_000, ordinal: 3 }]);
  expect(made).toMatch(/^018bcfe5-687b-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  // What a receiver has stored under this key must be found again by every later version of the program.
  expect(made).toBe("018bcfe5-687b-7a8e-868f-4000c1e5ecd0");
});

test("it depends on table, identity, commit time, place and part, and on nothing else", () => {
  const base = key([{ tuple: ["1", "a"] }]);
  expect(key([{ tuple: ["1", "another value"] }])).toBe(base);
  const others = [
    key([{ tuple: ["2", "a"] }]),
    key([{ tuple: ["1", "a"] }], "other"),
    key([{ tuple: ["1", "a"] }], "public", "usersx"),
    key([{ tuple: ["1", "a"], time: 1_700_000_000_123_457 }]),
    key([{ tuple: ["1", "a"], ordinal: 1 }]),
    key([{ tuple: ["1", "a"], part: RowPart.keyRemoved }]),
    key([{ tuple: ["1", "a"] }, { tuple: ["1", "a"] }]),
    key([{ tuple: ["1", "a"] }], "public", "users", [0, 1]),
  ];
  expect(new Set([base, ...others]).size).toBe(others.length + 1);
});

test("columns and names do not run into each other", () => {
  expect(key([{ tuple: ["ab", "c"] }], "s", "t", [0, 1])).not.toBe(
    key([{ tuple: ["a", "bc"] }], "s", "t", [0, 1]),
  );
  expect(key([{ tuple: ["1"] }], "ab", "c")).not.toBe(key([{ tuple: ["1"] }], "a", "bc"));
  expect(key([{ tuple: [null] }])).not.toBe(key([{ tuple: [""] }]));
});

test("material of any size gives the same key as it is cut into pieces", () => {
  const rows = Array.from({ length: 5000 }, (_, n) => ({ tuple: [String(n).repeat(5)], ordinal: n }));
  expect(key(rows)).toBe(key(rows));
  const large = "x".repeat(100_000);
  expect(key([{ tuple: [large] }])).not.toBe(key([{ tuple: [`${large}y`] }]));
});

test("versions rise strictly, with the commit time where they can", () => {
  expect(nextVersion(5, 10)).toBe(10);
  expect(nextVersion(10, 10)).toBe(11);
  expect(nextVersion(12, 10)).toBe(13);
});

test("how a table's requests may stand side by side", () => {
  const columns = [["id", 23, "integer"]] as const;
  const order = (key_: readonly number[], replicaIdentity: "default" | "full" | "index" | "nothing") =>
    tableOrder(relation("t", columns, { key: key_, replicaIdentity }));
  expect(order([0], "default")).toBe("byKey");
  expect(order([0], "full")).toBe("byKey");
  expect(order([0], "index")).toBe("strict");
  expect(order([], "full")).toBe("strict");
  expect(order([], "nothing")).toBe("free");
  const table = compileTable(relation("t", [...columns, ["v", 25, "text"]], { key: [] }), {
    writeRow: () => {},
  });
  expect(table.identity).toEqual([0, 1]);
});
