// Where tables stand, by what a run's parts tell of them, and what of it is reported.

import { expect, test } from "bun:test";
import type { TableShape } from "../../../src/change/relation.ts";
import { type PreparedStates, TableStates, type TablesReport } from "../../../src/pipeline/table-states.ts";
import { TableBoard } from "../../../src/runtime/status/table-board.ts";
import { relation, tableShape } from "../../support/rows/batch-fixture.ts";

const table = (id: number, name: string): TableShape => ({
  ...tableShape(relation(name, [["id", 23, "integer"]], { id, key: [0] })),
  estimatedRows: 10,
});
const [a, b] = [table(1, "a"), table(2, "b")];
const nothing: PreparedStates = { tables: [a, b], excluded: [], missing: [], unreadable: [] };
const aside = { schema: "public", name: "a", since: null, reason: "It needs v.", commands: ["alter a"] };

class Rig implements Disposable {
  readonly reports: TablesReport[] = [];
  readonly states = new TableStates((report) => void this.reports.push(report));

  #seen = 0;

  /** What was reported since this was called last, by name; null: nothing. */
  news(isFlushed = true): Record<string, string> | null {
    if (isFlushed) this.states.flush();
    const reports = this.reports.slice(this.#seen);
    this.#seen = this.reports.length;
    if (reports.length === 0) return null;
    const tables = reports.flatMap((report) => report.tables);
    return Object.fromEntries(
      tables.map(({ name, state, reason }) => [name, reason === null ? state : `${state}: ${reason}`]),
    );
  }

  [Symbol.dispose](): void {
    this.states[Symbol.dispose]();
  }
}

test("nothing is reported before the tables are read, and then all of them, once", () => {
  using rig = new Rig();
  rig.states.setAside([aside]);
  expect(rig.news()).toBeNull();
  rig.states.prepared({ ...nothing, missing: [b] });
  expect(rig.news()).toEqual({ a: "SetAside: It needs v.", b: "Waiting" });
  expect(rig.reports[0]?.isFirst).toBe(true);
  expect(rig.news()).toBeNull();
  // The same again is no news.
  rig.states.prepared({ ...nothing, missing: [b] });
  rig.states.setAside([aside]);
  expect(rig.news()).toBeNull();
  expect(rig.reports).toHaveLength(1);
});

test("all tables at first, and that the last one is proved, are reported at once", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, unproved: new Set([1, 2]) });
  expect(rig.news(false)).toEqual({
    a: expect.stringMatching(/^Resuming/),
    b: expect.stringMatching(/^Resuming/),
  });
  rig.states.proved(a);
  expect(rig.news(false)).toBeNull();
  rig.states.proved(b);
  expect(rig.news(false)).toEqual({ a: "Streaming", b: "Streaming" });
});

test("a connector without tables is told as well", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, tables: [] });
  expect(rig.news()).toEqual({});
  expect(rig.news()).toBeNull();
});

test("a table waits, is copied, and is streamed; only that one is reported", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, missing: [a] });
  rig.states.expects(a);
  rig.news();
  rig.states.began(a);
  expect(rig.news()).toEqual({ a: "Copying" });
  rig.states.copying(a, 20, 300);
  expect(rig.news()).toEqual({ a: "Copying" });
  expect(rig.reports.at(-1)?.tables[0]?.copy).toEqual({ rows: 20, bytes: 300, estimatedRows: 20 });
  rig.states.inPhase(a, "Writing", 5);
  rig.news();
  const phase = { name: "Writing" as const, rowsWritten: 5 };
  expect(rig.reports.at(-1)?.tables[0]?.copy).toEqual({ rows: 20, bytes: 300, estimatedRows: 20, phase });
  rig.states.began(a);
  rig.news();
  expect(rig.reports.at(-1)?.tables[0]?.copy).toEqual({ rows: 0, bytes: 0, estimatedRows: 10 });
  rig.states.copied(a);
  expect(rig.news()).toEqual({ a: "Streaming" });
  expect(rig.reports.at(-1)?.tables[0]?.copy).toBeNull();
});

test("a copy whose turn has not come waits, though the sink has begun it", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, missing: [a] });
  rig.states.expects(a);
  rig.states.prepared(nothing);
  expect(rig.news()).toEqual({ a: "Waiting", b: "Streaming" });
  rig.states.gaveUp(a);
  expect(rig.news()).toEqual({ a: "Streaming" });
});

test("a table that cannot be read says so until its copy begins again", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, missing: [a] });
  rig.states.began(a);
  rig.states.gaveUp(a, "It is denied.");
  expect(rig.news()).toEqual({ a: "Unreadable: It is denied.", b: "Streaming" });
  const unreadable = (isDue: boolean) => [{ table: a, reason: "It is denied.", isDue }];
  rig.states.prepared({ ...nothing, unreadable: unreadable(false) });
  rig.states.setAside([{ ...aside, reason: "It is denied.", commands: [] }]);
  rig.states.prepared({ ...nothing, missing: [a], unreadable: unreadable(true) });
  expect(rig.news()).toBeNull();
  rig.states.began(a);
  expect(rig.news()).toEqual({ a: "Copying" });
  rig.states.copied(a);
  rig.states.setAside([]);
  expect(rig.news()).toEqual({ a: "Streaming" });
});

test("what is to be done at the sink goes before what cannot be read", () => {
  using rig = new Rig();
  rig.states.prepared({ ...nothing, unreadable: [{ table: a, reason: "It is denied.", isDue: false }] });
  rig.states.setAside([aside]);
  expect(rig.news()).toEqual({ a: "SetAside: It needs v.", b: "Streaming" });
  expect(rig.reports.at(-1)?.tables[0]?.commands).toEqual(["alter a"]);
});

test("a table that is copied again once its cause is gone says so in a field of its own", () => {
  using rig = new Rig();
  rig.states.prepared(nothing);
  rig.states.setAside([aside]);
  rig.news();
  expect(rig.reports.at(-1)?.tables[0]).not.toHaveProperty("isCopiedAgain");
  rig.states.setAside([{ ...aside, isCopiedAgain: true }]);
  rig.news();
  const report = rig.reports.at(-1)!;
  expect(report.tables[0]).toMatchObject({ state: "SetAside", isCopiedAgain: true });
  const board = new TableBoard();
  board.reported("id", "run", { ...report, isFirst: true });
  expect(board.list("id", "run")[0]).toMatchObject({ state: "SetAside", copied_again: true });
});

test("tables that come, go, get another name, or are taken no more", () => {
  using rig = new Rig();
  const excluded = [{ id: 9, schema: "public", name: "x", reason: "It is unlogged." }];
  rig.states.prepared({ ...nothing, excluded });
  expect(rig.news()).toEqual({ a: "Streaming", b: "Streaming", x: "Excluded: It is unlogged." });
  const renamed = table(1, "c");
  rig.states.prepared({
    ...nothing,
    tables: [renamed, table(3, "d")],
    excluded: [],
    missing: [table(3, "d")],
  });
  expect(rig.news()).toEqual({ c: "Streaming", d: "Waiting" });
  expect(rig.reports.at(-1)?.gone.toSorted()).toEqual([2, 9]);
  rig.states.prepared({ ...nothing, tables: [], excluded: [{ ...excluded[0]!, id: 1 }] });
  expect(rig.news()).toEqual({ x: "Excluded: It is unlogged." });
  expect(rig.reports.at(-1)?.gone).toEqual([3]);
});
