// What src/sink/copy-sink.ts promises of copies beside the stream that are broken off, shown for every kind of sink that
// test/support/contract/kinds.ts lists: by a death, by the source, by their own signal.

import { describe, expect, test } from "bun:test";
import type { PageRange } from "../../src/change/page-range.ts";
import type { CopyMode } from "../../src/sink/copy-sink.ts";
import type { SinkLife } from "../support/contract/bench.ts";
import {
  chunkOf,
  copyTable,
  joined,
  lived,
  missingOf,
  openOrBegin,
  outcomeOf,
} from "../support/contract/carrying.ts";
import {
  accounts,
  beginning,
  type ContractRow,
  contractTables,
  insert,
  remove,
  risingSteps,
  rowsAfter,
  sorted,
  update,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import {
  base,
  begun,
  changes,
  everydayWaysOf,
  modes,
  ranges,
  Streaming,
} from "../support/contract/streaming.ts";
import { pick, variants } from "../support/matrix.ts";
import { transaction, unchanged } from "../support/rows/batch-fixture.ts";

describeSinks("beside the stream", (kind, ground) => {
  const inRanges = <T>(cases: readonly T[]) => (kind.takesRanges ? cases : []);

  describe("a copy that is broken off", () => {
    test("was not made, and may be made between two batches", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { stream } = await begun(kind, life, "initial");
      {
        await using copy = await stream.begin("initial");
        await stream.write(3);
        await stream.start(copy, false);
        await stream.write(6);
        await stream.take(copy);
      }
      expect(await missingOf(life.sink)).toEqual(["public.accounts"]);
      await life.sink.flush();
      await copyTable(life.sink, accounts, stream.rows(8), { behind: 8 });
      await stream.write(12);
      await life.sink.flush();
      expect(await missingOf(life.sink)).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(stream.rows());
    });

    test.each(
      inRanges(
        variants<readonly ["given up" | "killed", CopyMode]>(
          [
            ["given up", "replace"],
            ["killed", "initial"],
          ],
          [
            ["given up", "initial"],
            ["killed", "merge"],
            ["killed", "replace"],
          ],
        ),
      ),
    )("goes on with the ranges that are done when it was %s (mode %s)", async (end, mode) => {
      await using bench = await ground.bench();
      await using first = await bench.live();
      const { stream: before, strays } = await begun(kind, first, mode);
      {
        await using copy = await before.begin(mode);
        await before.start(copy, true);
        await before.write(3);
        await before.take(copy, 3, ranges[0]);
        await before.settle(copy);
        await before.write(5);
        const { range, isIn } = ranges[1]!;
        const options = { behind: 5, part: { kind: "range", range } as const };
        const failure = new Error("the source is gone");
        const amid = () => (end === "killed" ? first.kill() : Promise.reject(failure));
        const chunk = chunkOf(accounts, before.rows(5).filter(isIn), { ...options, amid });
        expect(await outcomeOf("the chunk", copy.take(chunk))).not.toBeNull();
      }
      await using second = end === "killed" ? await bench.live() : first;
      const from = end === "killed" ? await openOrBegin(second.sink) : beginning;
      expect(await missingOf(second.sink)).toEqual(mode === "initial" ? ["public.accounts"] : []);
      const stream = end === "killed" ? new Streaming(second, from) : before;
      await using copy = await stream.begin(mode);
      await stream.write(7);
      const started = await stream.start(copy, true);
      expect(started.ranges).toMatchObject({ done: [ranges[0]!.range] });
      expect(started.ranges?.rows).toBe(before.rows(3).filter(ranges[0]!.isIn).length);
      await stream.write(8);
      await stream.take(copy, 8, ranges[1]);
      await stream.take(copy, 8, ranges[2]);
      await stream.settle(copy);
      await stream.finish(copy);
      await stream.write(12);
      await second.sink.flush();
      expect(await missingOf(second.sink)).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
      expect(bench.contradictions()).toEqual([]);
    });

    // "merge" is a copy over rows that stay, as "replace" is one over rows that go.
    test.each(pick(everydayWaysOf(kind), ([mode]) => mode !== "merge"))(
      "by deaths anywhere, in mode %s and %s, ends with the rows of the source (seed 4)",
      async (mode, _, isDivided) => {
        await using bench = await ground.bench();
        // A copy that is whole takes few steps.
        const deathsAt = risingSteps(4, kind.takesRanges ? 9 : 3);
        let strays: readonly ContractRow[];
        {
          await using life = await bench.live();
          strays = (await begun(kind, life, mode)).strays;
        }
        /** So many transactions there are at the source. */
        let committed = 0;
        const settled: PageRange[] = [];
        let deaths = 0;
        for (let isMade = false; !isMade; deaths++) {
          await using life = await bench.live();
          life.dieIn(deathsAt());
          isMade = await lived(life, async () => {
            const stream = new Streaming(life, await openOrBegin(life.sink));
            const { missing, incomplete = [] } = await life.sink.prepare(contractTables, ["text"]);
            const isMissing = missing.length > 0;
            await stream.takeRows(incomplete, committed);
            const comeTo = async (count: number) => {
              committed = Math.min(Math.max(committed, count), changes.length);
              await stream.write(committed);
            };
            if (mode !== "initial" || isMissing) {
              await using copy = await stream.begin(mode);
              await comeTo(2);
              const { ranges: held } = await stream.start(copy, isDivided);
              const isDone = ({ from }: PageRange) =>
                held?.done.some((each) => each.from <= from && from < (each.to ?? 99)) ?? false;
              if (held) expect(settled.filter((each) => !isDone(each))).toEqual([]);
              for (const range of isDivided ? ranges.filter((each) => !isDone(each.range)) : [null]) {
                await comeTo(committed + 1);
                await Promise.all([stream.take(copy, committed, range), comeTo(committed + 1)]);
                await stream.settle(copy);
                if (range) settled.push(range.range);
              }
              await comeTo(committed + 1);
              // Whoever dies from here on may have made it.
              settled.length = 0;
              await stream.finish(copy);
            }
            await comeTo(12);
            // Not before: whoever looks again amid a repetition changes it.
            await stream.complete();
            await life.sink.flush();
          });
        }
        expect(deaths).toBeGreaterThan(2);
        expect(await bench.rows("accounts")).toEqual(
          sorted([...rowsAfter([...base, ...changes]).accounts, ...strays]),
        );
        expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
        expect(bench.contradictions()).toEqual([]);
      },
    );

    test.each(inRanges(pick(modes, (mode) => mode !== "merge")))(
      "keeps what the stream brought to a range that was done before (mode %s)",
      async (mode) => {
        await using bench = await ground.bench();
        const transactions = [
          transaction(1, [update(100, "before the chunks")]),
          // The new row lies in the first range: no chunk brings it.
          transaction(2, [insert(accounts, 60), remove(102)]),
          transaction(3, [update(101, "behind")]),
        ];
        await using first = await bench.live();
        const { stream: before, strays } = await begun(kind, first, mode, transactions);
        const broken = await before.begin(mode);
        await before.start(broken, true);
        await before.write(1);
        await before.take(broken, 1, ranges[0]);
        await before.settle(broken);
        await before.write(2);
        await first.sink.flush();
        await first.kill();
        await using life = await bench.live();
        const stream = new Streaming(life, await openOrBegin(life.sink), transactions);
        await missingOf(life.sink);
        await using copy = await stream.begin(mode);
        await stream.write(3);
        const { ranges: held } = await stream.start(copy, true);
        expect(held?.done).toMatchObject([ranges[0]!.range]);
        for (const range of ranges.slice(1)) await stream.take(copy, 3, range);
        await stream.settle(copy);
        await stream.finish(copy);
        await life.sink.flush();
        expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
      },
    );

    describe.each(inRanges(modes))("by a death when its ranges are all done (mode %s)", (mode) => {
      const transactions = [
        transaction(1, [update(100, "before the chunks")]),
        transaction(2, [update(102, unchanged), update(103, unchanged)]),
        transaction(3, [update(102, unchanged), update(103, "behind")]),
        transaction(4, [remove(102)]),
      ];

      /** Up to where `ended` takes place. The stream is behind the second transaction. */
      async function untilKilled(
        life: SinkLife,
        ended: "not asked for" | "asked for" | "taken",
      ): Promise<readonly ContractRow[]> {
        const { stream, strays } = await begun(kind, life, mode, transactions);
        const copy = await stream.begin(mode);
        await stream.start(copy, true);
        await stream.write(2);
        for (const range of ranges) await stream.take(copy, 1, range);
        await stream.settle(copy);
        if (ended !== "not asked for") {
          expect(await copy.finish()).toBe("incomplete");
          const keys = (await stream.incomplete()).flatMap((table) => table.keys);
          expect(keys.flat().toSorted()).toEqual(["102", "103"]);
          const part = { kind: "rows", keys } as const;
          const rows = stream.rows(4).filter(({ id }) => id === 103);
          if (ended === "taken")
            await life.sink.copies.takeRows(chunkOf(accounts, rows, { part, behind: 4 }));
        }
        await life.sink.flush();
        await life.kill();
        return strays;
      }

      const everyday = { initial: "not asked for", merge: "asked for", replace: "taken" }[mode];
      test.each(pick(["not asked for", "asked for", "taken"] as const, (ended) => ended === everyday))(
        "goes on where incomplete rows were %s",
        async (ended) => {
          await using bench = await ground.bench();
          await using first = await bench.live();
          const strays = await untilKilled(first, ended);
          await using life = await bench.live();
          const stream = new Streaming(life, await openOrBegin(life.sink), transactions);
          const isMade = ended !== "not asked for";
          const isMissing = mode === "initial" && !isMade;
          expect(await missingOf(life.sink)).toEqual(isMissing ? ["public.accounts"] : []);
          await stream.write(2);
          if (isMade) await stream.complete(2);
          else {
            await using copy = await stream.begin(mode);
            const { ranges: held } = await stream.start(copy, true);
            expect(joined(held?.done ?? [])).toEqual([{ from: 0, to: null }]);
            await stream.finish(copy);
          }
          if (ended !== "taken") expect(stream.asked.toSorted()).toEqual(["102", "103"]);
          if (ended !== "taken")
            expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(2), ...strays]));
          expect(await missingOf(life.sink)).toEqual([]);
          await stream.write(4);
          await life.sink.flush();
          expect(await missingOf(life.sink)).toEqual([]);
          expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(4), ...strays]));
          expect(life.told.failed).toEqual([]);
          await life.kill();
          await using last = await bench.live();
          await last.sink.open();
          expect(await missingOf(last.sink)).toEqual([]);
        },
      );
    });

    test("by its own signal ends while nothing answers, and the sink goes on", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { stream, strays } = await begun(kind, life, "merge");
      await stream.write(6);
      await life.sink.flush();
      const stop = new AbortController();
      const reason = new Error("cut");
      const copy = await stream.begin("merge", stop.signal);
      await stream.start(copy, false);
      bench.silence();
      const ended = outcomeOf("the copy", stream.take(copy));
      await Bun.sleep(20);
      stop.abort(reason);
      expect(await ended).toBe(reason);
      await bench.answer();
      await copy[Symbol.asyncDispose]();
      await stream.write(12);
      await life.sink.flush();
      expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
    });
  });
});
