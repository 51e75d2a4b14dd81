// What src/sink/copy-sink.ts promises of copies that the stream waits for, shown for every kind of sink that
// test/support/contract/kinds.ts lists. Those in ranges are in contract-ranges.test.ts, those beside the stream in contract-incremental.test.ts.

import { describe, expect, test } from "bun:test";
import { reachOf } from "../../src/change/checkpoint.ts";
import { bothTables } from "../support/contract/bench.ts";
import {
  carry,
  chunkOf,
  copyTable,
  lived,
  missingOf,
  openOrBegin,
  outcomeOf,
  prepared,
  ready,
} from "../support/contract/carrying.ts";
import {
  accounts,
  type ContractRow,
  contractTables,
  entries,
  history,
  insert,
  pointBehind,
  risingSteps,
  rowsAfter,
  rowsOf,
  sorted,
  update,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { transaction } from "../support/rows/batch-fixture.ts";

const rows = rowsOf("1:a 2:b 3:c 4:d");

describeSinks("", (kind, ground) => {
  /** As the target is to be when a copy in this mode brought rows beside those that were there. */
  const stays = (there: string): readonly ContractRow[] => (kind.removesRows ? [] : rowsOf(there));

  describe("a copy", () => {
    test("that has returned is durable, and so is that it was made", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      expect(first.missing).toEqual(["public.accounts", "public.entries"]);
      const told: number[] = [];
      await copyTable(first.sink, accounts, rows, { progress: (count) => told.push(count) });
      await first.life.kill();
      expect(told.filter((count, i) => count > rows.length || count < (told[i - 1] ?? 0))).toEqual([]);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toEqual(["public.entries"]);
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("as of a place that the stream has not come to is told of when the sink is opened", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      await copyTable(first.sink, accounts, rows, { behind: 3 });
      await first.life.kill();
      await using life = await bench.live();
      const from = await openOrBegin(life.sink);
      const { lsn } = pointBehind(3);
      expect(from.resumeLsn).toBeLessThan(lsn);
      expect(reachOf(from)).toBeGreaterThanOrEqual(lsn);
    });

    test("has its rows, of chunks whose memory is written over as soon as the next one is asked for", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      const many = Array.from({ length: 500 }, (_, id) => ({ id, v: `value ${id}` }));
      await copyTable(sink, accounts, many);
      expect(await bench.rows("accounts")).toEqual(many);
    });

    test("that was killed amid its rows was not made, and may be made again over what it left", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      const amid = () => first.life.kill();
      expect(await lived(first.life, () => copyTable(first.sink, accounts, rows, { amid }))).toBe(false);
      if (kind.isTransactional) expect(await bench.rows("accounts")).toEqual([]);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toEqual(["public.accounts", "public.entries"]);
      await copyTable(second.sink, accounts, rows);
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
          else if (kind.isTransactional) expect([[], rows]).toContainEqual([...held]);
          await copyTable(life.sink, accounts, rows);
        });
      }
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("whose source fails was not made", async () => {
      await using bench = await ground.bench();
      const failure = new Error("the source is gone");
      const first = await prepared(bench);
      await using _first = first.life;
      const amid = () => Promise.reject(failure);
      const outcome = await outcomeOf("the copy", copyTable(first.sink, accounts, rows, { amid }));
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
        await copyTable(sink, accounts, rowsOf("1:a 2:b"));
        await copyTable(sink, entries, []);
        await carry(life, [transaction(1, [insert(accounts, 3, "c"), update(2, "bb")])]);
        await sink.flush();
        await copyTable(sink, accounts, rowsOf("2:B 4:D"), { mode, behind: 1 });
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
        await copyTable(first.sink, accounts, rows);
        await copyTable(first.sink, entries, []);
        const later = rowsOf("1:A 2:B 3:C 4:D");
        const options = { mode, behind: 1, amid: () => first.life.kill() };
        expect(await lived(first.life, () => copyTable(first.sink, accounts, later, options))).toBe(false);
        if (kind.isTransactional) expect(await bench.rows("accounts")).toEqual(rows);
        const second = await prepared(bench);
        await using _second = second.life;
        expect(second.missing).toEqual([]);
        await copyTable(second.sink, accounts, later, { mode, behind: 2 });
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
        if (mode !== "initial") for (const table of contractTables) await copyTable(sink, table, []);
        await carry(life, changes.slice(0, early), { perBatch: 4 });
        await sink.flush();
        const there = rowsAfter(changes.slice(0, 8));
        await copyTable(sink, accounts, there.accounts, { mode, behind: 8 });
        if (mode === "initial") await copyTable(sink, entries, there.entries, { mode, behind: 8 });
        await carry(life, changes.slice(early), { perBatch: 4 });
        await sink.flush();
        expect(await bothTables(bench)).toEqual(rowsAfter(changes));
        expect(bench.contradictions()).toEqual([]);
      },
    );

    test("that is given up amid its rows was not made, and may be made again", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await copyTable(sink, entries, []);
      const stop = new AbortController();
      const reason = new Error("given up");
      {
        await using copy = await sink.copies.begin(accounts, "initial", "waits", stop.signal);
        await copy.start(false);
        const amid = async () => stop.abort(reason);
        const taken = copy.take(chunkOf(accounts, rowsOf("1:a 5:e"), { amid }));
        expect(await outcomeOf("the copy", taken)).toBe(reason);
      }
      expect(await missingOf(sink)).toEqual(["public.accounts"]);
      await copyTable(sink, accounts, rows, { behind: 1 });
      await carry(life, [transaction(2, [insert(accounts, 9, "later")])]);
      await sink.flush();
      expect(await missingOf(sink)).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(sorted([...rows, ...rowsOf("9:later")]));
    });

    if (!kind.asksForRows) return;
    test("of some rows, by their keys, replaces what has these keys, and no others", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { sink } = life;
      await ready(sink);
      await carry(life, [transaction(1, [insert(accounts, 1, "a"), insert(accounts, 2, "b")])]);
      await sink.flush();
      const part = { kind: "rows", keys: [["2"], ["3"]] } as const;
      expect(sink.copies.rowsForm(accounts)).toBe("text");
      await sink.copies.takeRows(chunkOf(accounts, rowsOf("2:B 3:C"), { part, behind: 1 }));
      expect(await bench.rows("accounts")).toEqual(rowsOf("1:a 2:B 3:C"));
      expect(await missingOf(sink)).toEqual([]);
    });

    test("of some rows is ahead of the stream, which brings what was before it", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { sink } = life;
      await ready(sink);
      const changes = history(9, 20);
      await carry(life, changes.slice(0, 5));
      await sink.flush();
      const keys = rowsAfter(changes).accounts.map(({ id }) => [String(id)]);
      const there = rowsAfter(changes.slice(0, 12)).accounts.filter(({ id }) =>
        keys.some(([key]) => key === String(id)),
      );
      await sink.copies.takeRows(chunkOf(accounts, there, { part: { kind: "rows", keys }, behind: 12 }));
      await carry(life, changes.slice(5), { perBatch: 3 });
      await sink.flush();
      expect(await bothTables(bench)).toEqual(rowsAfter(changes));
      expect(bench.contradictions()).toEqual([]);
    });
  });
});
