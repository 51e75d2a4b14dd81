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

const certain = (...numbers: number[]) => ({ numbers, isGuess: false });

test("columns that are as they were", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), dropped(2), live(3, "b")])).toEqual(certain(1, 3));
});

test("columns that were renamed since, also to each other's names", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), live(2, "c")])).toEqual(certain(1, 2));
  const exchanged = [live(1, "b", text, ["a"]), live(2, "a", text, ["b"])];
  expect(numberColumns(sent("a", "b"), exchanged)).toEqual(certain(1, 2));
  expect(numberColumns(sent("b", "a"), exchanged)).toEqual(certain(1, 2));
});

test("columns that were dropped or added since", () => {
  const catalog = [live(1, "a"), dropped(2), live(3, "c")];
  expect(numberColumns(sent("a", "b", "c"), catalog)).toEqual(certain(1, 2, 3));
  expect(numberColumns(sent("a"), [live(1, "a"), live(2, "b")])).toEqual(certain(1));
  expect(numberColumns(sent("a", "b"), [live(1, "a"), live(2, "x", int), live(3, "b")])).toEqual(
    certain(1, 3),
  );
});

test("a column that was dropped since, where another came: its former name tells", () => {
  const catalog = [live(1, "id"), dropped(2, ["a"]), live(3, "b")];
  expect(numberColumns(sent("id", "a"), catalog)).toEqual(certain(1, 2));
});

test("a guess is told as one", () => {
  const replaced = [live(1, "id"), dropped(2, ["a"]), live(3, "a")];
  expect(numberColumns(sent("id", "a"), replaced)).toEqual({ numbers: [1, 3], isGuess: true });
  const unknown = [live(1, "id"), dropped(2), live(3, "b", int)];
  expect(numberColumns(sent("id", "a"), unknown)).toEqual({ numbers: [1, 2], isGuess: true });
});

test("more columns than the catalog has: not known", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a")])).toEqual({ numbers: [0, 0], isGuess: true });
});

test("what is not told as a guess is right, whatever the table's history", () => {
  const step = fc.tuple(fc.constantFrom("add", "drop", "rename"), fc.nat(20), fc.integer({ min: 0, max: 9 }));
  let guesses = 0;
  let shapes = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.boolean(), (steps, areNamesKnown) => {
      const columns: { number: number; name: string; isDropped: boolean; formerNames: string[] }[] = [];
      const history: { number: number; name: string }[][] = [];
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
        history.push(
          columns.filter(({ isDropped }) => !isDropped).map(({ number, name }) => ({ number, name })),
        );
      }
      const catalog = columns.map((column) => ({ ...column, typeOid: column.isDropped ? 0 : text }));
      // Without its former names a column may be taken for another that has one of them by now: every name is known or none.
      fc.pre(areNamesKnown || new Set(columns.map(({ name }) => name)).size === columns.length);
      for (const shape of history) {
        const found = numberColumns(
          shape.map(({ name }) => ({ name, typeOid: text })),
          catalog,
        );
        shapes++;
        if (found.isGuess) guesses++;
        else expect(found.numbers).toEqual(shape.map(({ number }) => number));
      }
    }),
    { numRuns: 500, seed: 1 },
  );
  expect(guesses).toBeLessThan(shapes);
});
