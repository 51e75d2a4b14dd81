// What src/sink/copy-sink.ts promises of copies beside the stream whose table has changed, shown for every kind of sink that
// test/support/contract/kinds.ts lists: they count no more, and say so.

import { describe, expect, test } from "bun:test";
import type { TableShape } from "../../src/change/relation.ts";
import type { TableCopy } from "../../src/sink/copy-sink.ts";
import { chunkOf, copyTable, missingOf, never, outcomeOf } from "../support/contract/carrying.ts";
import { accounts, entries, insert, sorted, update } from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { begun, modes, type Streaming, stray } from "../support/contract/streaming.ts";
import { pick } from "../support/matrix.ts";
import { transaction } from "../support/rows/batch-fixture.ts";

describeSinks("beside the stream", (kind, ground) => {
  describe("a copy that is not to count any more", () => {
    const extra = { ...accounts.relation.columns[1]!, name: "extra" };
    const altered: TableShape = {
      ...accounts,
      relation: { ...accounts.relation, columns: [...accounts.relation.columns, extra] },
    };
    /** All calls up to the end. */
    async function toTheEnd(stream: Streaming, copy: TableCopy): Promise<void> {
      await stream.take(copy);
      await stream.settle(copy);
      await stream.finish(copy);
    }
    const tableChanged = { name: "MillraceError", code: "table_changed", retry: "transient" };

    test.each(modes)(
      "tells that the stream has altered the table, and is made anew (mode %s)",
      async (mode) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        const after = ["100", "altered", null];
        const transactions = [
          transaction(1, [update(101, "before")]),
          transaction(2, [{ kind: "update", relation: altered.relation, after }]),
        ];
        const { stream, strays } = await begun(kind, life, mode, transactions);
        {
          await using copy = await stream.begin(mode);
          await stream.start(copy, false);
          await stream.write(1);
          if (mode !== "replace") await stream.take(copy);
          await stream.write(2);
          expect(await outcomeOf("the copy", toTheEnd(stream, copy))).toMatchObject(tableChanged);
        }
        expect(await missingOf(life.sink, [altered, entries])).toEqual(
          mode === "initial" ? ["public.accounts"] : [],
        );
        await using copy = await stream.begin(mode, never, altered);
        await stream.start(copy, false);
        await copy.take(chunkOf(altered, stream.rows(), { behind: 2 }));
        await stream.settle(copy);
        await stream.finish(copy);
        expect(await missingOf(life.sink, [altered, entries])).toEqual([]);
        expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
      },
    );

    const others: readonly (readonly [string, readonly TableShape[]])[] = [
      ["is not selected any more", [entries]],
      [
        "has got its name from another",
        [{ ...accounts, relation: { ...accounts.relation, id: 17_000 } }, entries],
      ],
      ["has got rows that no change told of", [{ ...accounts, contents: "2" }, entries]],
    ];
    // Every day each of them in one mode.
    const made = others.flatMap(([what, tables], i) =>
      pick(modes, (_, j) => i === j).map((mode) => [what, mode, tables] as const),
    );
    test.each(made)("does not count when its table %s (mode %s)", async (_, mode, tables) => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      const { stream } = await begun(kind, life, mode);
      {
        await using copy = await stream.begin(mode);
        await stream.write(2);
        await stream.start(copy, false);
        await stream.write(4);
        await stream.take(copy);
        await missingOf(life.sink, tables);
        const outcome = await outcomeOf("the copy", toTheEnd(stream, copy));
        // Rows over others may come all the same: the table is to be copied anew.
        if (mode === "initial" || outcome !== null) expect(outcome).toMatchObject(tableChanged);
      }
      const [table] = tables.length > 1 ? tables : [accounts];
      const all = [table!, entries];
      expect(await missingOf(life.sink, all)).toEqual(["public.accounts"]);
      await copyTable(life.sink, table!, stream.rows(), { behind: 4 });
      expect(await missingOf(life.sink, all)).toEqual([]);
      const strays = mode === "initial" || kind.removesRows ? [] : [stray];
      expect(await bench.rows("accounts")).toEqual(sorted([...stream.rows(), ...strays]));
    });

    if (!kind.removesRows) return;
    const orders = modes.flatMap((mode) => {
      const everyday = mode === "merge" ? "after" : "before";
      return pick(["before", "after"] as const, (order) => order === everyday).map(
        (order) => [mode, order] as const,
      );
    });
    test.each(orders)(
      "brings nothing back that was truncated (mode %s, rows come %s that)",
      async (mode, order) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        const truncated = { kind: "truncate", relation: accounts.relation } as const;
        const transactions = [
          transaction(1, [update(101, "before")]),
          transaction(2, [truncated, insert(accounts, 1, "behind")]),
          transaction(3, [insert(accounts, 2, "later")]),
        ];
        const { stream } = await begun(kind, life, mode, transactions);
        const outcome = await outcomeOf("the copy", attempt(1));
        if (outcome !== null) {
          expect(outcome).toMatchObject(tableChanged);
          await attempt(3);
        }
        await life.sink.flush();
        expect(await bench.rows("accounts")).toEqual(stream.rows());

        async function attempt(point: number): Promise<void> {
          await using copy = await stream.begin(mode);
          await stream.start(copy, false);
          await stream.write(point);
          if (order === "before") await stream.take(copy, point);
          await stream.write(3);
          if (order === "after") await stream.take(copy, point);
          await stream.settle(copy);
          await stream.finish(copy);
        }
      },
    );
  });
});
