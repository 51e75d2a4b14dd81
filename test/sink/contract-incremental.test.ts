// What src/sink/copy-sink.ts promises of copies that are made beside the stream, shown for every kind of sink that
// test/support/contract/kinds.ts lists. Those that are broken off are in
// contract-incremental-broken.thorough.ts, those whose tables change in contract-incremental-changed.test.ts.

import { describe, expect, test } from "bun:test";
import {
  carry,
  chunkOf,
  copyTable,
  finishWaiting,
  missingOf,
  never,
  openOrBegin,
} from "../support/contract/carrying.ts";
import {
  accounts,
  type ContractRow,
  entries,
  history,
  insert,
  remove,
  rowsAfter,
  sorted,
  update,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { begun, changes, everydayWaysOf, modes, ranges, Streaming } from "../support/contract/streaming.ts";
import { pick } from "../support/matrix.ts";
import { transaction, unchanged } from "../support/rows/batch-fixture.ts";

describeSinks("beside the stream", (kind, ground) => {
  describe("a copy", () => {
    test.each(everydayWaysOf(kind))(
      "in mode %s that comes %s ends with the rows of the source",
      async (mode, _, isDivided) => {
        await using bench = await ground.bench();
        {
          await using life = await bench.live();
          const { stream, strays } = await begun(kind, life, mode);
          {
            await using copy = await stream.begin(mode);
            await stream.write(3);
            await stream.start(copy, isDivided);
            await stream.write(5);
            if (isDivided) {
              const both = ranges.slice(0, 2).map((range) => stream.take(copy, 5, range));
              await Promise.all([...both, stream.write(7)]);
              await stream.settle(copy);
            }
            await Promise.all([
              stream.take(copy, stream.written, isDivided ? ranges[2] : null),
              stream.write(8),
            ]);
            await stream.settle(copy);
            await stream.write(10);
            await stream.finish(copy);
          }
          expect(await missingOf(life.sink)).toEqual([]);
          await stream.write(12);
          await life.sink.flush();
          expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
          expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
          expect(bench.contradictions()).toEqual([]);
          await life.kill();
        }
        await using next = await bench.live();
        await next.sink.open();
        expect(await missingOf(next.sink)).toEqual([]);
      },
    );

    test.each(everydayWaysOf(kind).filter(([mode]) => mode !== "initial"))(
      "in mode %s that comes %s takes no row from the sink meanwhile, and stands looks at the tables",
      async (mode, _, isDivided) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        const { stream } = await begun(kind, life, mode);
        const lasting = stream.rows(12).filter(({ v }) => v === "base");
        const look = async () => {
          await life.sink.flush();
          expect(await bench.rows("accounts")).toEqual(expect.arrayContaining([...lasting]));
          expect(await missingOf(life.sink)).toEqual([]);
        };
        await using copy = await stream.begin(mode);
        for (const step of [
          () => stream.start(copy, isDivided),
          ...(isDivided ? ranges : [null]).map((range) => () => stream.take(copy, stream.written, range)),
          () => stream.settle(copy),
          () => stream.finish(copy),
        ]) {
          await look();
          await stream.write(stream.written + 2);
          await step();
        }
        await look();
      },
    );

    test("of a table that has none has the changes from its beginning on", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const whole = history(8, 5);
      const { stream } = await begun(kind, life, "initial", whole);
      await using _copy = await stream.begin("initial");
      expect(await missingOf(life.sink)).toEqual([]);
      await stream.write(5);
      await life.sink.flush();
      expect(await bench.rows("accounts")).toEqual(rowsAfter(whole).accounts);
    });

    test("leaves out rows whose keys the stream has touched since it was started", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const transactions = [
        transaction(1, [update(100, "before the point"), insert(accounts, 1)]),
        transaction(2, [update(100, "behind the point"), remove(101), insert(accounts, 2)]),
      ];
      const { stream } = await begun(kind, life, "initial", transactions);
      await using copy = await stream.begin("initial");
      await stream.start(copy, false);
      await stream.write(2);
      await stream.take(copy, 1);
      await stream.settle(copy);
      await life.sink.flush();
      expect(await bench.rows("accounts")).toEqual(stream.rows());
      expect(bench.contradictions()).toEqual([]);
    });

    test("that is asked for beside the stream may have it wait, and is made between two batches then", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { sink } = life;
      const from = await openOrBegin(sink);
      await missingOf(sink);
      await copyTable(sink, accounts, []);
      await using copy = await sink.copies.begin(entries, "initial", "runs", never);
      // It has no key.
      expect(copy.stream).toBe("waits");
      await copy.start(false);
      await copy.take(chunkOf(entries, rowsAfter(changes.slice(0, 6)).entries, { behind: 6 }));
      await finishWaiting(copy);
      await carry(life, changes, { from, perBatch: 5 });
      await sink.flush();
      expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
    });
  });

  describe("a row that the stream brings in part", () => {
    const inPart = [transaction(1, [update(100, "whole")]), transaction(2, [update(102, unchanged)])];

    test.each(pick(modes, (mode) => mode !== "merge"))(
      "is complete in the end, asked for by its key or not (mode %s)",
      async (mode) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        const { stream, strays } = await begun(kind, life, mode, inPart);
        const outdated = [{ id: 102, v: "outdated" }];
        if (mode !== "initial" && kind.asksForRows) {
          const part = { kind: "rows", keys: [["102"]] } as const;
          await life.sink.copies.takeRows(chunkOf(accounts, outdated, { part }));
        } else if (mode !== "initial") await copyTable(life.sink, accounts, outdated, { mode: "merge" });
        await using copy = await stream.begin(mode);
        await stream.start(copy, false);
        await stream.write(2);
        await stream.take(copy, 1);
        await stream.settle(copy);
        await stream.finish(copy);
        expect(stream.asked).toEqual(kind.asksForRows ? ["102"] : []);
        expect(await missingOf(life.sink)).toEqual([]);
        expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
      },
    );

    test.each(pick(modes, (mode) => mode !== "replace"))(
      "is complete under the key it has got, asked for or not (mode %s)",
      async (mode) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        const before = ["102", null];
        const moved = { kind: "update", relation: accounts.relation, before, oldIsKey: true } as const;
        const transactions = [
          transaction(1, [update(100, "whole")]),
          transaction(2, [{ ...moved, after: ["202", unchanged] }]),
        ];
        const { stream, strays } = await begun(kind, life, mode, transactions);
        const source = [...stream.rows(1).filter(({ id }) => id !== 102), { id: 202, v: "base" }];
        await using copy = await stream.begin(mode);
        await stream.start(copy, false);
        await stream.write(2);
        await stream.take(copy, 1);
        await stream.settle(copy);
        expect(await copy.finish()).toBe(kind.asksForRows ? "incomplete" : "all");
        await stream.complete(2, source);
        expect(stream.asked).toEqual(kind.asksForRows ? ["202"] : []);
        expect(await bench.rows("accounts")).toEqual(sorted([...source, ...strays]));
      },
    );

    if (!kind.takesRanges) return;
    test("is asked for though no chunk has it, in the next life too, as it moved from one range into another", async () => {
      await using bench = await ground.bench();
      const [first, ...others] = ranges;
      const without102 = { ...first!, isIn: (row: ContractRow) => first!.isIn(row) && row.id !== 102 };
      {
        await using life = await bench.live();
        const { stream } = await begun(kind, life, "initial", inPart);
        const copy = await stream.begin("initial");
        await stream.start(copy, true);
        await stream.write(1);
        await stream.take(copy, 1, without102);
        await stream.settle(copy);
        await stream.write(2);
        await life.sink.flush();
        await life.kill();
      }
      await using life = await bench.live();
      const stream = new Streaming(life, await openOrBegin(life.sink), inPart);
      expect(await missingOf(life.sink)).toEqual(["public.accounts"]);
      await using copy = await stream.begin("initial");
      const { ranges: held } = await stream.start(copy, true);
      expect(held?.done).toMatchObject([first!.range]);
      await stream.write(2);
      for (const range of others) {
        await stream.take(copy, 2, { ...range, isIn: (row) => range.isIn(row) && row.id !== 102 });
        await stream.settle(copy);
      }
      await stream.finish(copy);
      expect(stream.asked).toEqual(["102"]);
      expect(await bench.rows("accounts")).toEqual(stream.rows());
    });
  });
});
