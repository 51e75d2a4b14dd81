import { expect, test } from "bun:test";
import fc from "fast-check";
import { type NumberedColumn, numberColumns } from "../../../../src/source/postgres/shapes/column-numbers.ts";

const int = 23;
const text = 25;
const live = (number: number, name: string, typeOid = text, formerNames: string[] = []): NumberedColumn => ({
  number,
  name,
  typeOid,
  isDropped: false,
  formerNames,
  isNew: false,
  isUnchanged: formerNames.length === 0,
  length: null,
  mayBeWithheld: false,
});
const dropped = (number: number, formerNames: string[] = []): NumberedColumn => ({
  number,
  name: `........pg.dropped.${number}........`,
  typeOid: 0,
  isDropped: true,
  formerNames,
  isNew: formerNames.length === 0,
  isUnchanged: false,
  length: null,
  mayBeWithheld: false,
});
const sent = (...names: string[]) => names.map((name) => ({ name, typeOid: text, length: null }));

const certain = (...numbers: number[]) => ({ numbers, isGuess: false });

test("unchanged columns", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), dropped(2), live(3, "b")])).toEqual(certain(1, 3));
});

test("renamed columns, also swapped names", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a"), live(2, "c")])).toEqual(certain(1, 2));
  const exchanged = [live(1, "b", text, ["a"]), live(2, "a", text, ["b"])];
  expect(numberColumns(sent("a", "b"), exchanged)).toEqual(certain(1, 2));
  expect(numberColumns(sent("b", "a"), exchanged)).toEqual(certain(1, 2));
});

test("dropped and added columns", () => {
  const catalog = [live(1, "a"), dropped(2, ["b"]), live(3, "c")];
  expect(numberColumns(sent("a", "b", "c"), catalog)).toEqual(certain(1, 2, 3));
  expect(numberColumns(sent("a"), [live(1, "a"), { ...live(2, "b"), isNew: true }])).toEqual(certain(1));
  const excluded = { ...live(2, "x", int), mayBeWithheld: true };
  expect(numberColumns(sent("a", "b"), [live(1, "a"), excluded, live(3, "b")])).toEqual(certain(1, 3));
});

test("a dropped column whose name another has: its former name identifies it", () => {
  const catalog = [live(1, "id"), dropped(2, ["a"]), { ...live(3, "b", int), isNew: true }];
  expect(numberColumns(sent("id", "a"), catalog)).toEqual(certain(1, 2));
});

test("a column that was added and dropped between reads may have had any name", () => {
  const remade = [
    live(1, "id"),
    dropped(2, ["a"]),
    live(3, "b"),
    dropped(4),
    { ...live(5, "a"), isNew: true },
  ];
  expect(numberColumns(sent("id", "b", "a"), remade)).toEqual({ numbers: [1, 3, 5], isGuess: true });
  const renamed = [live(1, "id"), dropped(2, ["a"]), { ...live(3, "z"), isNew: true }];
  expect(numberColumns(sent("id", "a"), renamed).isGuess).toBe(true);
  const retyped = [live(1, "id"), dropped(2, ["a"]), { ...live(3, "z", int), isNew: true }];
  expect(numberColumns(sent("id", "a"), retyped)).toEqual(certain(1, 2));
});

test("a guess is reported as a guess", () => {
  const replaced = [live(1, "id"), dropped(2, ["a"]), { ...live(3, "a"), isNew: true }];
  expect(numberColumns(sent("id", "a"), replaced)).toEqual({ numbers: [1, 3], isGuess: true });
  const unknown = [live(1, "id"), dropped(2), { ...live(3, "b"), isNew: true }];
  expect(numberColumns(sent("id", "a"), unknown)).toEqual({ numbers: [1, 3], isGuess: true });
});

test("more columns than the catalog has: unknown", () => {
  expect(numberColumns(sent("a", "b"), [live(1, "a")])).toEqual({ numbers: [0, 0], isGuess: true });
});

test("whatever the table's history, a result that is not a guess is right", () => {
  const step = fc.tuple(fc.constantFrom("add", "drop", "rename"), fc.nat(20), fc.integer({ min: 0, max: 9 }));
  let guesses = 0;
  let shapes = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.nat(12), (steps, readAt) => {
      const columns: { number: number; name: string; isDropped: boolean }[] = [];
      const history: { number: number; name: string }[][] = [];
      let gone: readonly number[] = [];
      const seen = new Map<number, string>();
      const touched = new Set<number>();
      steps.forEach(([kind, at, name], i) => {
        const alive = columns.filter(({ isDropped }) => !isDropped);
        const column = alive[at % Math.max(1, alive.length)];
        const isTaken = alive.some((other) => other.name === `c${name}`);
        if (kind === "add" && !isTaken) {
          columns.push({ number: columns.length + 1, name: `c${name}`, isDropped: false });
        } else if (kind === "drop" && column) {
          column.isDropped = true;
        } else if (kind === "rename" && column && !isTaken) {
          column.name = `c${name}`;
          touched.add(column.number);
        }
        if (i === readAt) {
          touched.clear();
          for (const { number, name, isDropped } of columns) if (!isDropped) seen.set(number, name);
          gone = columns.filter(({ isDropped }) => isDropped).map(({ number }) => number);
        }
        if (i < readAt) return;
        history.push(
          columns.filter(({ isDropped }) => !isDropped).map(({ number, name }) => ({ number, name })),
        );
      });
      // Only the names at the read and at the end are known.
      const catalog = columns
        .filter(({ number }) => !gone.includes(number))
        .map((column) => ({
          ...column,
          typeOid: column.isDropped ? 0 : text,
          isNew: !seen.has(column.number),
          isUnchanged: seen.has(column.number) && !touched.has(column.number),
          length: null,
          formerNames: seen.has(column.number) ? [seen.get(column.number)!] : [],
          mayBeWithheld: false,
        }));
      for (const shape of history) {
        const found = numberColumns(
          shape.map(({ name }) => ({ name, typeOid: text, length: null })),
          catalog,
        );
        shapes++;
        if (found.isGuess) guesses++;
        else expect(found.numbers).toEqual(shape.map(({ number }) => number));
      }
    }),
    { numRuns: 2_000, seed: 1 },
  );
  expect(guesses).toBeLessThan(shapes / 2);
});
