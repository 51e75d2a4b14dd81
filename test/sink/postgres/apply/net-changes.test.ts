import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { tupleColumns } from "../../../../src/change/tuple.ts";
import { NetChanges } from "../../../../src/sink/postgres/apply/net-changes.ts";
import { usedMs } from "../../../support/processor-time.ts";
import {
  batches,
  type FixtureChange,
  relation,
  type TextTuple,
  transaction,
  unchanged,
} from "../../../support/rows/batch-fixture.ts";

const table = relation("t", [
  ["id", 25, "text"],
  ["small", 25, "text"],
  ["big", 25, "text"],
]);

function fold(changes: readonly FixtureChange[]) {
  const [batch] = batches([transaction(1, changes)]);
  if (!batch) throw new Error("no changes");
  const net = new NetChanges([0], batch.arena);
  const taken = changes.map((_, i) => net.add(batch, i));
  return { net, taken, results: resultsOf(net) };
}

/** What is to be done, by key. */
function resultsOf(net: NetChanges): Record<string, string> {
  const results: Record<string, string> = {};
  for (let entry = 0; entry < net.size; entry++) {
    const kind = net.kindOf(entry);
    if (kind === "none") continue;
    const { bytes, start } = net.tupleOf(entry);
    const values = tupleColumns(bytes, start).map((column) =>
      column.length < 0
        ? { [-1]: "null", [-2]: "same" }[column.length]
        : Buffer.from(bytes.subarray(column.start, column.start + column.length)).toString(),
    );
    results[values[0] ?? ""] = kind === "delete" ? "delete" : `${kind} ${values.slice(1).join()}`;
  }
  return results;
}

const insert = (...after: TextTuple): FixtureChange => ({ kind: "insert", relation: table, after });
const update = (...after: TextTuple): FixtureChange => ({ kind: "update", relation: table, after });
const move = (from: string, ...after: TextTuple): FixtureChange => ({
  kind: "update",
  relation: table,
  after,
  before: [from, null, null],
  oldIsKey: true,
});
const remove = (id: string): FixtureChange => ({
  kind: "delete",
  relation: table,
  before: [id, null, null],
  oldIsKey: true,
});

describe("the net of a key's changes", () => {
  test.each<[string, FixtureChange[], Record<string, string>]>([
    ["insert, then update", [insert("1", "a", "x"), update("1", "b", "x")], { 1: "insert b,x" }],
    ["insert, then delete", [insert("1", "a", "x"), remove("1")], {}],
    ["update, then delete", [update("1", "a", "x"), remove("1")], { 1: "delete" }],
    ["delete, then insert", [remove("1"), insert("1", "a", "x")], { 1: "update a,x" }],
    ["two updates", [update("1", "a", "x"), update("1", "b", "y")], { 1: "update b,y" }],
    ["a move", [move("1", "2", "a", "x")], { 1: "delete", 2: "insert a,x" }],
    [
      "a swap through a third key",
      [move("1", "3", "a", "x"), move("2", "1", "b", "y"), move("3", "2", "a", "x")],
      { 1: "update b,y", 2: "update a,x" },
    ],
    ["a row that comes and moves", [insert("1", "a", "x"), move("1", "2", "b", "x")], { 2: "insert b,x" }],
    [
      "an unchanged value of a known row",
      [insert("1", "a", "x"), update("1", "b", unchanged)],
      { 1: "insert b,x" },
    ],
    ["an unchanged value of an unknown row", [update("1", "b", unchanged)], { 1: "update b,same" }],
    ["unchanged, then changed", [update("1", "b", unchanged), update("1", "c", "z")], { 1: "update c,z" }],
    ["an unchanged key, then delete", [move("1", unchanged, "b", "x"), remove("1")], { 1: "delete" }],
    [
      "an unchanged key beside a whole old row, then delete",
      [
        { kind: "update", relation: table, after: [unchanged, "b", unchanged], before: ["1", "a", "x"] },
        remove("1"),
      ],
      { 1: "delete" },
    ],
    [
      "unchanged keys of several rows",
      [move("1", unchanged, "b", "x"), move("2", unchanged, "c", unchanged)],
      { 1: "update b,x", 2: "update c,same" },
    ],
    [
      "an unchanged key of a row that came and moved",
      [insert("1", "a", "x"), move("1", "2", "b", unchanged), move("2", unchanged, "c", unchanged)],
      { 2: "insert c,x" },
    ],
    [
      "an unchanged value, before a key that moves",
      [
        insert("1", "a", "x"),
        update("1", "b", unchanged),
        move("1", "2", "c", unchanged),
        update("2", "d", unchanged),
      ],
      { 2: "insert d,x" },
    ],
    [
      "unchanged, then removed and inserted",
      [update("1", "a", "x"), update("1", "b", unchanged), remove("1"), insert("1", "c", "y")],
      { 1: "update c,y" },
    ],
    [
      "changed, then unchanged",
      [update("1", "b", "z"), update("1", "c", unchanged), update("1", "d", unchanged)],
      { 1: "update d,z" },
    ],
  ])("%s", (_, changes, expected) => {
    expect(fold(changes).results).toEqual(expected);
  });

  test("a move whose value was not sent is left to be applied by itself, and touches nothing", () => {
    const { taken, results } = fold([update("5", "a", "x"), move("1", "2", "a", unchanged)]);
    expect(taken).toEqual([true, false]);
    expect(results).toEqual({ 5: "update a,x" });
  });

  test("a move takes the value from the row's state in the batch", () => {
    expect(fold([update("1", "a", "x"), move("1", "2", "b", unchanged)]).results).toEqual({
      1: "delete",
      2: "insert b,x",
    });
  });

  test("a full old row brings the values that were not sent", () => {
    const change: FixtureChange = {
      kind: "update",
      relation: table,
      after: ["1", "b", unchanged],
      before: ["1", "a", "x"],
    };
    expect(fold([change]).results).toEqual({ 1: "update b,x" });
  });
});

test("many updates that leave a large value alone are folded without copying it", () => {
  const large = "x".repeat(900_000);
  const changes = [insert("1", "0", large)];
  for (let i = 1; i <= 5000; i++) changes.push(update("1", String(i), unchanged));
  const [batch] = batches([transaction(1, changes)]);
  const net = new NetChanges([0], batch!.arena);
  const beganMs = usedMs();
  for (let i = 0; i < batch!.count; i++) net.add(batch!, i);
  const tookMs = usedMs() - beganMs;
  expect(resultsOf(net)).toEqual({ 1: `insert 5000,${large}` });
  expect(tookMs).toBeLessThan(200);
});

test("writing only the net leaves the table as writing every change would", () => {
  const key = fc.constantFrom("1", "2", "3", "4");
  const step = fc.record({ act: fc.constantFrom("put", "remove", "move"), key, to: key, value: fc.nat(99) });
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 1, maxLength: 40 }),
      fc.subarray(["1", "2", "3", "4"]),
      (steps, first) => {
        const before = new Map(first.map((id) => [id, "0"]));
        const rows = new Map(before);
        const changes: FixtureChange[] = [];
        for (const { act, key: id, to, value } of steps) {
          const text = String(value);
          if (act === "put") {
            changes.push(rows.has(id) ? update(id, text, "x") : insert(id, text, "x"));
            rows.set(id, text);
          } else if (act === "remove" && rows.delete(id)) changes.push(remove(id));
          else if (act === "move" && rows.has(id) && !rows.has(to)) {
            rows.delete(id);
            rows.set(to, text);
            changes.push(move(id, to, text, "x"));
          }
        }
        fc.pre(changes.length > 0);
        const written = new Map(before);
        for (const [id, result] of Object.entries(fold(changes).results)) {
          const [kind, values] = result.split(" ");
          expect(written.has(id)).toBe(kind !== "insert");
          if (kind === "delete") written.delete(id);
          else written.set(id, values?.split(",")[0] ?? "");
        }
        expect([...written].sort()).toEqual([...rows].sort());
      },
    ),
    { numRuns: 500 },
  );
});
