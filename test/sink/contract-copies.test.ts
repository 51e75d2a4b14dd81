// What src/sink/sink.ts promises of copies that are made between two batches, shown for every kind of sink that
// test/support/contract-kinds.ts lists. Those beside the stream are in contract-beside.test.ts.

import { describe, expect, test } from "bun:test";
import type { PageRange } from "../../src/change/page-range.ts";
import type { Sink } from "../../src/sink/sink.ts";
import { transaction, unchanged } from "../support/batch-fixture.ts";
import { bothTables, type SinkBench, type SinkLife } from "../support/contract-bench.ts";
import {
  carry,
  copyOf,
  lived,
  missingOf,
  openOrBegin,
  outcomeOf,
  ready,
} from "../support/contract-carrying.ts";
import {
  accounts,
  type ContractRow,
  contractTables,
  entries,
  history,
  insert,
  pointBehind,
  remove,
  risingSteps,
  rowsAfter,
  sorted,
  update,
} from "../support/contract-history.ts";
import { describeSinks } from "../support/contract-kinds.ts";
import { waitFor } from "../support/wait-for.ts";

const rowsOf = (text: string): readonly ContractRow[] =>
  text.split(" ").map((pair) => ({ id: Number(pair.split(":")[0]), v: pair.split(":")[1] ?? "" }));

const rows = rowsOf("1:a 2:b 3:c 4:d");

describeSinks("", (kind, ground) => {
  /** A life that has begun, and has looked at its tables. */
  async function prepared(
    bench: SinkBench,
  ): Promise<{ life: SinkLife; sink: Sink; missing: readonly string[] }> {
    const life = await bench.live();
    await openOrBegin(life.sink);
    return { life, sink: life.sink, missing: await missingOf(life.sink) };
  }

  /** As the target is to be when a copy in this mode brought rows beside those that were there. */
  const stays = (there: string): readonly ContractRow[] => (kind.removesRows ? [] : rowsOf(there));

  describe("a copy", () => {
    test("that has returned is durable, and so is that it was made", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      expect(first.missing).toEqual(["public.accounts", "public.entries"]);
      const told: number[] = [];
      await first.sink.copyTable(copyOf(accounts, rows, { progress: (count) => told.push(count) }));
      await first.life.kill();
      expect(told.filter((count, i) => count > rows.length || count < (told[i - 1] ?? 0))).toEqual([]);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toEqual(["public.entries"]);
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("that was killed amid its rows was not made, and may be made again over what it left", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      const copy = copyOf(accounts, rows, { amid: () => first.life.kill() });
      expect(await lived(first.life, () => first.sink.copyTable(copy))).toBe(false);
      if (kind.isTransactional) expect(await bench.rows("accounts")).toEqual([]);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toEqual(["public.accounts", "public.entries"]);
      await second.sink.copyTable(copyOf(accounts, rows));
      expect(await bench.rows("accounts")).toEqual(rows);
      expect(await missingOf(second.sink)).toEqual(["public.entries"]);
    });

    test("amid which the service dies anywhere was made with all its rows, or was not made (seed 2)", async () => {
      await using bench = await ground.bench();
      const deathsAt = risingSteps(2, 5);
      for (let isMade = false; !isMade; ) {
        await using life = await bench.live();
        life.dieIn(deathsAt());
        isMade = await lived(life, async () => {
          await openOrBegin(life.sink);
          const missing = await missingOf(life.sink);
          const held = await bench.rows("accounts");
          if (!missing.includes("public.accounts")) expect(held).toEqual(rows);
          else if (kind.isTransactional) expect(held).toEqual([]);
          await life.sink.copyTable(copyOf(accounts, rows, { mode: held.length > 0 ? "merge" : "initial" }));
        });
      }
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("whose source fails was not made", async () => {
      await using bench = await ground.bench();
      const failure = new Error("the source is gone");
      const first = await prepared(bench);
      await using _first = first.life;
      const copy = copyOf(accounts, rows, { amid: () => Promise.reject(failure) });
      const outcome = await outcomeOf("the copy", first.sink.copyTable(copy));
      expect(String(outcome)).toContain(failure.message);
      await first.sink[Symbol.asyncDispose]();
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toContain("public.accounts");
    });

    test.each([
      ["merge", "1:a 2:B 3:c 4:D 5:later"],
      ["replace", "2:B 4:D 5:later"],
    ] as const)(
      "in mode %s puts its rows in the place of those that have their keys, and the stream goes on",
      async (mode, wanted) => {
        await using bench = await ground.bench();
        const { life, sink } = await prepared(bench);
        await using _life = life;
        await sink.copyTable(copyOf(accounts, rowsOf("1:a 2:b")));
        await sink.copyTable(copyOf(entries, []));
        await carry(life, [transaction(1, [insert(accounts, 3, "c"), update(2, "bb")])]);
        await sink.flush();
        await sink.copyTable(copyOf(accounts, rowsOf("2:B 4:D"), { mode, behind: 1 }));
        await carry(life, [transaction(2, [insert(accounts, 5, "later")])]);
        await sink.flush();
        const kept = mode === "replace" ? stays("1:a 3:c") : [];
        expect(await bench.rows("accounts")).toEqual(sorted([...rowsOf(wanted), ...kept]));
        await life.kill();
        await using next = await bench.live();
        await next.sink.open();
        expect(await missingOf(next.sink)).toEqual([]);
      },
    );

    test.each(["merge", "replace"] as const)(
      "in mode %s that was killed amid its rows can be made again",
      async (mode) => {
        await using bench = await ground.bench();
        const first = await prepared(bench);
        await using _first = first.life;
        await first.sink.copyTable(copyOf(accounts, rows));
        await first.sink.copyTable(copyOf(entries, []));
        const later = rowsOf("1:A 2:B 3:C 4:D");
        const copy = copyOf(accounts, later, { mode, behind: 1, amid: () => first.life.kill() });
        expect(await lived(first.life, () => first.sink.copyTable(copy))).toBe(false);
        if (kind.isTransactional) expect(await bench.rows("accounts")).toEqual(rows);
        const second = await prepared(bench);
        await using _second = second.life;
        expect(second.missing).toEqual([]);
        await second.sink.copyTable(copyOf(accounts, later, { mode, behind: 2 }));
        expect(await bench.rows("accounts")).toEqual(later);
      },
    );

    test.each(["initial", "merge", "replace"] as const)(
      "in mode %s has changes that the stream brings from before its point",
      async (mode) => {
        await using bench = await ground.bench();
        const changes = history(6, 12);
        const { life, sink } = await prepared(bench);
        await using _life = life;
        const early = mode === "initial" ? 0 : 3;
        if (mode !== "initial") for (const table of contractTables) await sink.copyTable(copyOf(table, []));
        await carry(life, changes.slice(0, early), { perBatch: 4 });
        await sink.flush();
        const there = rowsAfter(changes.slice(0, 8));
        await sink.copyTable(copyOf(accounts, there.accounts, { mode, behind: 8 }));
        if (mode === "initial") await sink.copyTable(copyOf(entries, there.entries, { mode, behind: 8 }));
        await carry(life, changes.slice(early), { perBatch: 4 });
        await sink.flush();
        expect(await bothTables(bench)).toEqual(rowsAfter(changes));
        expect(bench.contradictions()).toEqual([]);
      },
    );

    test("of rows that are owed replaces what has their keys, and no others", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { sink } = life;
      await ready(sink);
      await carry(life, [transaction(1, [insert(accounts, 1, "a"), insert(accounts, 2, "b")])]);
      await sink.flush();
      const part = { kind: "rows", keys: [["2"], ["3"]] } as const;
      await sink.copyTable(copyOf(accounts, rowsOf("2:B 3:C"), { mode: "merge", part, behind: 1 }));
      expect(await bench.rows("accounts")).toEqual(rowsOf("1:a 2:B 3:C"));
      expect(await missingOf(sink)).toEqual([]);
    });
  });

  describe("a copy in ranges", () => {
    const head: PageRange = { from: 0, to: 10 };
    const tail: PageRange = { from: 10, to: null };
    const range = (of: PageRange, some: readonly ContractRow[], amid?: () => Promise<unknown>) =>
      copyOf(accounts, some, { part: { kind: "range", range: of }, ...(amid ? { amid } : {}) });

    test("goes on in the next life with the ranges that were held, and is made when it holds all", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      expect(await first.sink.beginCopy(accounts, true)).toMatchObject({ ranges: [], rows: 0, form: "text" });
      await first.sink.copyTable(range(head, rows.slice(0, 2)));
      const broken = range(tail, rows.slice(2), () => first.life.kill());
      expect(await lived(first.life, () => first.sink.copyTable(broken))).toBe(false);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toContain("public.accounts");
      const begun = await second.sink.beginCopy(accounts, true);
      expect(begun).toMatchObject({ ranges: [head], rows: 2 });
      await second.sink.copyTable(range(tail, rows.slice(2)));
      await second.sink.endCopy(accounts);
      await second.life.kill();
      expect(await bench.rows("accounts")).toEqual(rows);
      const third = await prepared(bench);
      await using _third = third.life;
      expect(third.missing).toEqual(["public.entries"]);
    });

    test("owes rows that are in none, once the stream is at its last point, and asks for that", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await sink.copyTable(copyOf(entries, []));
      await sink.beginCopy(accounts, true);
      await sink.copyTable(range(head, rows.slice(0, 2)));
      const last = { part: { kind: "range", range: tail }, behind: 3 } as const;
      await sink.copyTable(copyOf(accounts, rows.slice(2), last));
      await sink.endCopy(accounts);
      expect(life.told.awaited).toEqual([]);
      const none = [2, 3, 4].map((n) => transaction(n, [insert(entries, n)]));
      await carry(life, [transaction(1, [update(9, unchanged)])]);
      await waitFor("a place to be asked for", () => life.told.awaited.length > 0);
      expect(new Set(life.told.awaited)).toEqual(new Set([pointBehind(3).lsn]));
      expect((await sink.prepare(contractTables, ["text"])).owed ?? []).toEqual([]);
      const looks = life.told.mended;
      await carry(life, none);
      await waitFor("a look to be asked for", () => life.told.mended > looks);
      const { owed } = await sink.prepare(contractTables, ["text"]);
      expect(owed?.map(({ table, keys }) => [table.relation.name, keys])).toEqual([["accounts", [["9"]]]]);
    });

    test("begins anew where no stream brings what lies between", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await sink.beginCopy(accounts, true);
      await sink.copyTable(range(head, rows.slice(0, 2)));
      expect(await sink.beginCopy(accounts, false)).toMatchObject({ ranges: [], rows: 0 });
      await sink.copyTable(range({ from: 0, to: null }, rows));
      await sink.endCopy(accounts);
      expect(await bench.rows("accounts")).toEqual(rows);
    });
  });

  describe("looking at the tables", () => {
    test("a copy counts as none when its table is no longer selected", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await sink.copyTable(copyOf(accounts, rows));
      await sink.copyTable(copyOf(entries, []));
      expect(await missingOf(sink, [entries])).toEqual([]);
      await life.kill();
      const next = await prepared(bench);
      await using _next = next.life;
      expect(next.missing).toEqual(["public.accounts"]);
    });

    test("a copy counts as none when another table has got the name, whose first copy takes its place", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await sink.copyTable(copyOf(accounts, rowsOf("1:a 2:b")));
      await sink.copyTable(copyOf(entries, []));
      const other = { ...accounts, storage: "2", relation: { ...accounts.relation, id: 17_000 } };
      expect(await missingOf(sink, [other, entries])).toEqual(["public.accounts"]);
      await sink.copyTable(copyOf(other, rowsOf("2:B 3:C")));
      expect(await missingOf(sink, [other, entries])).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(sorted([...stays("1:a"), ...rowsOf("2:B 3:C")]));
    });

    test("what was delivered before all was forgotten gives way to the next first copy", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await sink.copyTable(copyOf(accounts, rowsOf("1:a 2:b")));
      await sink.forget(false);
      await sink[Symbol.asyncDispose]();
      const next = await prepared(bench);
      await using _next = next.life;
      await next.sink.copyTable(copyOf(accounts, rowsOf("2:B 3:C")));
      expect(await bench.rows("accounts")).toEqual(sorted([...stays("1:a"), ...rowsOf("2:B 3:C")]));
    });

    test("changes of a table that cannot be read come before its copy, and do it no harm", async () => {
      await using bench = await ground.bench();
      const base = rowsOf("100:base 101:base 102:base");
      const changes = [
        transaction(1, [insert(accounts, 1, "a"), update(100, "early"), insert(entries, 1)]),
        transaction(2, [remove(101), insert(entries, 2)]),
        transaction(3, [update(1, "b"), update(100, "late"), insert(entries, 3)]),
      ];
      const unreadable = { table: accounts, reason: "locked" };
      const first = await prepared(bench);
      await using _first = first.life;
      const look = await first.sink.prepare(contractTables, ["text"], [{ ...unreadable, isDue: false }]);
      expect(look.missing).toEqual([entries]);
      expect(first.life.told.setAside).toMatchObject([
        { schema: "public", name: "accounts", reason: "locked" },
      ]);
      await first.sink.copyTable(copyOf(entries, []));
      await carry(first.life, changes.slice(0, 1));
      await first.sink.flush();
      await first.life.kill();
      await using life = await bench.live();
      const { sink } = life;
      const from = await openOrBegin(sink);
      const due = await sink.prepare(contractTables, ["text"], [{ ...unreadable, isDue: true }]);
      expect(due.missing).toEqual([accounts]);
      const asOf2 = [...base.filter(({ id }) => id === 102), ...rowsOf("1:a 100:early")];
      await sink.copyTable(copyOf(accounts, sorted(asOf2), { behind: 2 }));
      await carry(life, changes, { from });
      await sink.flush();
      expect(life.told.setAside).toEqual([]);
      expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
      expect(await bench.rows("accounts")).toEqual(rowsOf("1:b 100:late 102:base"));
    });
  });
});
