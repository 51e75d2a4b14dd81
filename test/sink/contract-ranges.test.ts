// What src/sink/copy-sink.ts promises of copies that come in ranges while the stream waits, shown for every kind of sink that
// test/support/contract/kinds.ts lists.

import { describe, expect, test } from "bun:test";
import { copiesLogPrefix } from "../../src/change/checkpoint.ts";
import type { PageRange } from "../../src/change/page-range.ts";
import type { StartedCopy, TableCopy } from "../../src/sink/copy-sink.ts";
import type { Sink } from "../../src/sink/sink.ts";
import {
  type ChunkOptions,
  carry,
  chunkOf,
  copyTable,
  finishWaiting,
  joined,
  lived,
  missingOf,
  never,
  openOrBegin,
  prepared,
} from "../support/contract/carrying.ts";
import {
  accounts,
  beginning,
  type ContractRow,
  contractTables,
  entries,
  insert,
  pointBehind,
  risingSteps,
  rowsOf,
  sorted,
  update,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { transaction, unchanged } from "../support/rows/batch-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

const rows = rowsOf("1:a 2:b 3:c 4:d");

describeSinks("", (kind, ground) => {
  /** As the target is to be when a copy in this mode brought rows beside those that were there. */
  const stays = (there: string): readonly ContractRow[] => (kind.removesRows ? [] : rowsOf(there));

  if (!kind.takesRanges) {
    test("a copy that may come in ranges is taken as a whole", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      const copy = await sink.copies.begin(accounts, "initial", "waits", never);
      expect((await copy.start(true)).ranges).toBeNull();
      await copy.take(chunkOf(accounts, rows));
      await finishWaiting(copy);
      expect(await missingOf(sink)).toEqual(["public.entries"]);
      expect(await bench.rows("accounts")).toEqual(rows);
    });
    return;
  }

  describe("a copy in ranges", () => {
    const head: PageRange = { from: 0, to: 10 };
    const tail: PageRange = { from: 10, to: null };
    const [inHead, inTail] = [rows.slice(0, 2), rows.slice(2)];
    const range = (of: PageRange, some: readonly ContractRow[], options: Omit<ChunkOptions, "part"> = {}) =>
      chunkOf(accounts, some, { ...options, part: { kind: "range", range: of } });

    async function begin(sink: Sink): Promise<{ readonly copy: TableCopy; readonly started: StartedCopy }> {
      const copy = await sink.copies.begin(accounts, "initial", "waits", never);
      const started = await copy.start(true);
      expect(started.form).toBe("text");
      return { copy, started };
    }

    test("goes on in the next life with the ranges that were taken, and is made when it holds all", async () => {
      await using bench = await ground.bench();
      const first = await prepared(bench);
      await using _first = first.life;
      const broken = await begin(first.sink);
      expect(broken.started.ranges).toMatchObject({ done: [], rows: 0 });
      await broken.copy.take(range(head, inHead));
      const amid = () => first.life.kill();
      expect(await lived(first.life, () => broken.copy.take(range(tail, inTail, { amid })))).toBe(false);
      const second = await prepared(bench);
      await using _second = second.life;
      expect(second.missing).toContain("public.accounts");
      const { copy, started } = await begin(second.sink);
      expect(started.ranges).toMatchObject({ done: [head], rows: 2 });
      await copy.take(range(tail, inTail));
      await finishWaiting(copy);
      await second.life.kill();
      expect(await bench.rows("accounts")).toEqual(rows);
      const third = await prepared(bench);
      await using _third = third.life;
      expect(third.missing).toEqual(["public.entries"]);
    });

    test("takes several at once, and goes on in the same life with those that were taken", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      const [a, b, c] = [
        { from: 0, to: 4 },
        { from: 4, to: 8 },
        { from: 8, to: null },
      ];
      {
        const { copy } = await begin(sink);
        await using _copy = copy;
        await Promise.all([copy.take(range(a!, rows.slice(0, 1))), copy.take(range(b!, rows.slice(1, 3)))]);
      }
      expect(await missingOf(sink)).toContain("public.accounts");
      const { copy, started } = await begin(sink);
      await using _copy = copy;
      expect(started.ranges?.rows).toBe(3);
      expect(joined(started.ranges?.done ?? [])).toEqual([{ from: 0, to: 8 }]);
      await copy.take(range(c!, rows.slice(3)));
      await finishWaiting(copy);
      expect(await missingOf(sink)).toEqual(["public.entries"]);
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("amid which the service dies anywhere is made, and no range that was done is asked for again (seed 3)", async () => {
      await using bench = await ground.bench();
      const deathsAt = risingSteps(3, 5);
      const ranges = [head, tail];
      const taken: PageRange[] = [];
      for (let isMade = false; !isMade; ) {
        await using life = await bench.live();
        life.dieIn(deathsAt());
        isMade = await lived(life, async () => {
          await openOrBegin(life.sink);
          if (!(await missingOf(life.sink)).includes("public.accounts")) return;
          const { copy, started } = await begin(life.sink);
          const { done } = started.ranges!;
          const isDone = ({ from }: PageRange) =>
            done.some((each) => each.from <= from && from < (each.to ?? 99));
          expect(taken.filter((each) => !isDone(each))).toEqual([]);
          for (const each of ranges.filter((one) => !isDone(one))) {
            await copy.take(range(each, each === head ? inHead : inTail));
            taken.push(each);
          }
          await finishWaiting(copy);
        });
      }
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("lacks rows that are in none: it asks for them once the stream is at its last point", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await copyTable(sink, entries, []);
      const { copy } = await begin(sink);
      await copy.take(range(head, inHead));
      await copy.take(range(tail, inTail, { behind: 3 }));
      await finishWaiting(copy);
      await copy[Symbol.asyncDispose]();
      expect(life.told.awaited).toEqual([]);
      const none = [2, 3, 4].map((n) => transaction(n, [insert(entries, n)]));
      await carry(life, [transaction(1, [update(9, unchanged)])]);
      await waitFor("a place to be asked for", () => life.told.awaited.length > 0);
      expect(new Set(life.told.awaited)).toEqual(new Set([pointBehind(3).lsn]));
      expect((await sink.prepare(contractTables, ["text"])).incomplete ?? []).toEqual([]);
      const looks = life.told.looks;
      await carry(life, none);
      await waitFor("a look to be asked for", () => life.told.looks > looks);
      const { incomplete } = await sink.prepare(contractTables, ["text"]);
      expect(incomplete?.map(({ table, keys }) => [table.relation.name, keys])).toEqual([
        ["accounts", [["9"]]],
      ]);
      const part = { kind: "rows", keys: [["9"]] } as const;
      await sink.copies.takeRows(chunkOf(accounts, rowsOf("9:moved"), { part, behind: 4 }));
      expect((await sink.prepare(contractTables, ["text"])).incomplete ?? []).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(sorted([...rows, ...rowsOf("9:moved")]));
    });

    test("begins anew where no stream brings what lies between", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { sink } = life;
      await sink.open();
      await sink.begin({ ...beginning, log: `${copiesLogPrefix}a database` });
      await missingOf(sink);
      const first = await begin(sink);
      await first.copy.take(range(head, inHead));
      await first.copy[Symbol.asyncDispose]();
      const { copy, started } = await begin(sink);
      expect(started.ranges).toMatchObject({ done: [], rows: 0 });
      await copy.take(range({ from: 0, to: null }, rows, { behind: 1 }));
      await finishWaiting(copy);
      expect(await bench.rows("accounts")).toEqual(rows);
    });

    test("begins anew when the table is not what it was", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      const first = await begin(sink);
      await first.copy.take(range(head, rowsOf("1:a 5:e")));
      await first.copy[Symbol.asyncDispose]();
      const rewritten = { ...accounts, storage: "2" };
      expect(await missingOf(sink, [rewritten, entries])).toContain("public.accounts");
      const copy = await sink.copies.begin(rewritten, "initial", "waits", never);
      expect((await copy.start(true)).ranges).toMatchObject({ done: [], rows: 0 });
      const part = { kind: "range", range: { from: 0, to: null } } as const;
      await copy.take(chunkOf(rewritten, rows, { part, behind: 1 }));
      await finishWaiting(copy);
      expect(await bench.rows("accounts")).toEqual(sorted([...stays("5:e"), ...rows]));
    });
  });
});
