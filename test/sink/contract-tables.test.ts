// What src/sink/sink.ts promises of the tables that it is to look at, shown for every kind of sink that
// test/support/contract/kinds.ts lists.

import { describe, expect, test } from "bun:test";
import { carry, copyTable, missingOf, openOrBegin, prepared } from "../support/contract/carrying.ts";
import {
  accounts,
  type ContractRow,
  contractTables,
  entries,
  insert,
  remove,
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

  describe("looking at the tables", () => {
    test("a copy counts as none when its table is no longer selected", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await copyTable(sink, accounts, rows);
      await copyTable(sink, entries, []);
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
      await copyTable(sink, accounts, rowsOf("1:a 2:b"));
      await copyTable(sink, entries, []);
      const other = { ...accounts, storage: "2", relation: { ...accounts.relation, id: 17_000 } };
      expect(await missingOf(sink, [other, entries])).toEqual(["public.accounts"]);
      await copyTable(sink, other, rowsOf("2:B 3:C"));
      expect(await missingOf(sink, [other, entries])).toEqual([]);
      expect(await bench.rows("accounts")).toEqual(sorted([...stays("1:a"), ...rowsOf("2:B 3:C")]));
    });

    test("what was delivered before all was forgotten gives way to the next first copy", async () => {
      await using bench = await ground.bench();
      const { life, sink } = await prepared(bench);
      await using _life = life;
      await copyTable(sink, accounts, rowsOf("1:a 2:b"));
      await sink.forget(false);
      await sink[Symbol.asyncDispose]();
      const next = await prepared(bench);
      await using _next = next.life;
      await copyTable(next.sink, accounts, rowsOf("2:B 3:C"));
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
      await copyTable(first.sink, entries, []);
      await carry(first.life, changes.slice(0, 1));
      await first.sink.flush();
      await first.life.kill();
      await using life = await bench.live();
      const { sink } = life;
      const from = await openOrBegin(sink);
      const due = await sink.prepare(contractTables, ["text"], [{ ...unreadable, isDue: true }]);
      expect(due.missing).toEqual([accounts]);
      const asOf2 = [...base.filter(({ id }) => id === 102), ...rowsOf("1:a 100:early")];
      await copyTable(sink, accounts, sorted(asOf2), { behind: 2 });
      await carry(life, changes, { from });
      await sink.flush();
      expect(life.told.setAside).toEqual([]);
      expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
      expect(await bench.rows("accounts")).toEqual(rowsOf("1:b 100:late 102:base"));
    });
  });
});
