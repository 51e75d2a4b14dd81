import { expect, test } from "bun:test";
import { type ColumnWidth, hasRoomForGroup } from "../../../../src/sink/postgres/schema/row-width.ts";

const int8: ColumnWidth = { length: 8, alignment: "d", storage: "p" };
const int4: ColumnWidth = { length: 4, alignment: "i", storage: "p" };
const text: ColumnWidth = { length: -1, alignment: "i", storage: "x" };
const tsquery: ColumnWidth = { length: -1, alignment: "i", storage: "p" };

test.each<[number, ColumnWidth, boolean]>([
  [0, int8, true],
  [20, text, true],
  [1600, int4, false],
  [1599, int4, true],
  [440, text, true],
  [460, text, false],
  [990, int8, true],
  // 1,002 of them and a bitmap of nulls fill a page.
  [1002, int8, false],
  [1, tsquery, false],
])("%i columns such as %j: %p", (count, column, fits) => {
  expect(hasRoomForGroup(Array.from({ length: count }, () => column))).toBe(fits);
});
