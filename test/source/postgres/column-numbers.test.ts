import { expect, test } from "bun:test";
import fc from "fast-check";
import { type NumberedColumn, numberColumns } from "../../../src/source/postgres/column-numbers.ts";

const int = 23;
const text = 25;
const live = (number: number, name: string, typeOid = text, formerNames: string[] = []): NumberedColumn => ({
  number,
  name,
  typeOid,
  isDropped: false,
  formerNames,
});
const dropped = (number: number, formerNames: string[] = []): NumberedColumn => ({
  number,
  name: `........pg.dropped.${number}........`,
  typeOid: 0,
  isDropped: true,
  formerNames,
});
const sent = (...names: string[]) => names.map((name) => ({ name, typeOid: text }));

test("columns that are as they were", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), dropped(2), live(3, "b")])).toEqual([1, 3]);
});

test("columns that were renamed since, also to each other's names", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), live(2, "c")])).toEqual([1, 2]);
  expect(numberColumns(sent("a", "b"), [live(1, "b"), live(2, "a")])).toEqual([1, 2]);
});

test("columns that were dropped or added since", () => {
  expect(numberColumns(sent("a", "b", "c"), [live(1, "a"), dropped(2), live(3, "c")])).toEqual([1, 2, 3]);
  expect(numberColumns(sent("a"), [live(1, "a"), live(2, "b")])).toEqual([1]);
  expect(numberColumns(sent("a", "b"), [live(1, "a"), live(2, "x", int), live(3, "b")])).toEqual([1, 3]);
});

test("a column that was dropped since, where another came: its former name tells", () => {
  const catalog = [live(1, "id"), dropped(2, ["a"]), live(3, "b")];
  expect(numberColumns(sent("id", "a"), catalog)).toEqual([1, 2]);
});

test("more columns than the catalog has: not known", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a")])).toEqual([0, 0]);
});

test("as long as former names are known, any history of a table is found again", () => {
  const step = fc.tuple(fc.constantFrom("add", "drop", "rename"), fc.nat(20), fc.integer({ min: 0, max: 9 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const columns: { number: number; name: string; isDropped: boolean; formerNames: string[] }[] = [];
      const shapes: { number: number; name: string }[][] = [];
      let fresh = 0;
      for (const [kind, at, name] of steps) {
        const alive = columns.filter(({ isDropped }) => !isDropped);
        const column = alive[at % Math.max(1, alive.length)];
        const isTaken = alive.some((other) => other.name === `c${name}`);
        if (kind === "add" && !isTaken) {
          columns.push({ number: ++fresh, name: `c${name}`, isDropped: false, formerNames: [] });
        } else if (kind === "drop" && column) {
          column.formerNames.push(column.name);
          column.isDropped = true;
        } else if (kind === "rename" && column && !isTaken) {
          column.formerNames.push(column.name);
          column.name = `c${name}`;
        }
        shapes.push(
          columns.filter(({ isDropped }) => !isDropped).map(({ number, name }) => ({ number, name })),
        );
      }
      // A name that several columns have had is no evidence: those histories are decided by order alone.
      const names = columns.flatMap((column) => [...new Set([...column.formerNames, column.name])]);
      fc.pre(new Set(names).size === names.length);
      const catalog = columns.map((column) => ({ ...column, typeOid: column.isDropped ? 0 : text }));
      for (const shape of shapes) {
        const found = numberColumns(
          shape.map(({ name }) => ({ name, typeOid: text })),
          catalog,
        );
        expect(found).toEqual(shape.map(({ number }) => number));
      }
    }),
    { numRuns: 500 },
  );
});
