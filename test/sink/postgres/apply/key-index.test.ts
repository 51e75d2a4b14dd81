import { expect, test } from "bun:test";
import fc from "fast-check";
import { KeyIndex } from "../../../../src/sink/postgres/apply/key-index.ts";
import { tupleBytes } from "../../../support/rows/batch-fixture.ts";

test("rows of the same key, and only those, share an entry", () => {
  const value = fc.constantFrom("", "a", "b", "aa", "ab", "ba", "é");
  fc.assert(
    fc.property(fc.array(fc.tuple(value, fc.string(), value), { maxLength: 400 }), (rows) => {
      const index = new KeyIndex([0, 2]);
      const entries = new Map<string, number>();
      for (const [first, other, last] of rows) {
        const tuple = tupleBytes([first, other, last]);
        const entry = index.entryOf(tuple, 0, tuple.length);
        const key = JSON.stringify([first, last]);
        expect(entry).toBe(entries.get(key) ?? entries.size);
        entries.set(key, entry);
      }
      expect(index.size).toBe(entries.size);
    }),
  );
});

test("many keys keep their entries while the table grows", () => {
  const index = new KeyIndex([0]);
  const tuples = Array.from({ length: 20_000 }, (_, i) => tupleBytes([String(i), "x"]));
  tuples.forEach((tuple, i) => {
    expect(index.entryOf(tuple, 0, tuple.length)).toBe(i);
  });
  expect(index.entryOf(tuples[12_345]!, 0, tuples[12_345]!.length)).toBe(12_345);
});
