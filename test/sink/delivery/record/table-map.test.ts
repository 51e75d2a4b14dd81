// A map by table of which each change makes another one: it says the same as a Map, and costs little however many tables there are.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { differingNames, withEntry } from "../../../../src/sink/delivery/record/table-map.ts";
import { usedMs } from "../../../support/processor-time.ts";

const name = fc.string({ maxLength: 3 });
const changes = fc.array(fc.tuple(name, fc.option(fc.nat(3), { nil: undefined })), { maxLength: 40 });

test("it says what a Map says, and earlier ones stay as they were", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.nat(3))), changes, (begun, changed) => {
      const plain = new Map(begun);
      let map: ReadonlyMap<string, number> = new Map(begun);
      const first = map;
      for (const [each, value] of changed) {
        const before = map;
        const had = [...before].sort();
        map = withEntry(map, each, value);
        if (value === undefined) plain.delete(each);
        else plain.set(each, value);
        expect([...before].sort()).toEqual(had);
        expect(map.size).toBe(plain.size);
        expect(map.get(each)).toBe(value);
        expect(map.has(each)).toBe(value !== undefined);
      }
      const told: [string, number][] = [];
      map.forEach((value, each) => void told.push([each, value]));
      for (const entries of [[...map], [...map.entries()], told])
        expect(entries.sort()).toEqual([...plain].sort());
      expect([...map.keys()].sort()).toEqual([...plain.keys()].sort());
      expect([...map.values()].sort()).toEqual([...plain.values()].sort());
      const differing = [...new Set([...first.keys(), ...plain.keys()])].filter(
        (each) => first.get(each) !== plain.get(each),
      );
      expect([...differingNames(first, map)].sort()).toEqual(differing.sort());
    }),
  );
});

test("20,000 changes of 5,000 tables, each compared with the one before", () => {
  const names = Array.from({ length: 5_000 }, (_, i) => `public.t${i}`);
  let map: ReadonlyMap<string, number> = new Map(names.map((each) => [each, 0]));
  const begunMs = usedMs();
  for (let i = 1; i <= 20_000; i++) {
    const before = map;
    map = withEntry(map, names[i % names.length]!, i);
    if (differingNames(before, map).length > 1) throw new Error("more than one differs");
  }
  // A copy of all of it each time takes half a minute.
  expect(usedMs() - begunMs).toBeLessThan(5_000);
});
