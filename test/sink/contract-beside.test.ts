// What src/sink/sink.ts promises of copies that are made while batches are written, shown for every kind of sink that
// test/support/contract-kinds.ts lists.

import { expect, test } from "bun:test";
import type { CopyBeside, CopyRequest, Sink } from "../../src/sink/sink.ts";
import { transaction } from "../support/batch-fixture.ts";
import { carry, copyOf, missingOf, openOrBegin, outcomeOf } from "../support/contract-carrying.ts";
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
} from "../support/contract-history.ts";
import { describeSinks } from "../support/contract-kinds.ts";

type Mode = CopyRequest["mode"];

/** Rows that were there before the stream began. */
const base = [
  transaction(
    -1,
    [100, 101, 102, 103].map((id) => insert(accounts, id, "base")),
  ),
];

/** The copies are as of behind the sixth. Some of the rows are changed before that, and some behind it. */
const changes = history(7, 12).map(({ changes: some }, i) => {
  const more = [];
  if (i === 4) more.push(update(102, "before the point"));
  if (i === 6) more.push(update(100, "behind the point"), remove(101));
  return transaction(i + 1, [...some, ...more]);
});

/** The source, behind so many of the changes. */
const sourceBehind = (count: number) => rowsAfter([...base, ...changes.slice(0, count)]).accounts;

const never = new AbortController().signal;

async function begin(sink: Sink, mode: Mode, stop = never): Promise<CopyBeside> {
  const copy = await sink.beginBeside(accounts, mode, stop);
  if (!copy) throw new Error("it is not made beside the stream");
  return copy;
}

/** Between two batches, when so many of the changes are written: until nothing is left. */
async function settle(sink: Sink, copy: CopyBeside, written: number): Promise<void> {
  for (let isMore = true; isMore; ) {
    const piece = await copy.settle();
    isMore = piece.isMore || piece.owed.length > 0;
    if (piece.owed.length === 0) continue;
    const keys = new Set(piece.owed.map(([key]) => key));
    const owed = sourceBehind(written).filter(({ id }) => keys.has(String(id)));
    const part = { kind: "rows", keys: piece.owed } as const;
    await sink.copyTable(copyOf(accounts, owed, { mode: "merge", part, behind: written }));
  }
}

describeSinks("beside the stream", (kind, ground) => {
  /** The table's first copy, where one is to be made before. Returns rows that the sink has and the source has not. */
  async function prepare(sink: Sink, mode: Mode): Promise<readonly ContractRow[]> {
    await openOrBegin(sink);
    await missingOf(sink);
    await sink.copyTable(copyOf(entries, []));
    if (mode === "initial") return [];
    const strays = [{ id: 900, v: "stray" }];
    await sink.copyTable(copyOf(accounts, [...sourceBehind(0), ...strays]));
    return mode === "replace" && kind.removesRows ? [] : strays;
  }

  test.each(["initial", "merge", "replace"] as const)(
    "a copy in mode %s ends with the rows of the source",
    async (mode) => {
      await using bench = await ground.bench();
      {
        await using life = await bench.live();
        const { sink } = life;
        const strays = await prepare(sink, mode);
        const write = (from: number, to: number) => carry(life, changes.slice(from, to), { perBatch: 3 });
        {
          await using copy = await begin(sink, mode);
          await write(0, 3);
          await copy.watch?.();
          await write(3, 6);
          const request = copyOf(accounts, sourceBehind(6), { mode, behind: 6 });
          const taken = copy.take({ ...request, form: copy.form });
          if (copy.takesInTurn) await taken;
          await Promise.all([taken, write(6, 8)]);
          await copy.compare();
          await write(8, 10);
          await settle(sink, copy, 10);
        }
        expect(await missingOf(sink)).toEqual([]);
        await write(10, 12);
        await sink.flush();
        expect(await bench.rows("accounts")).toEqual(sorted([...sourceBehind(12), ...strays]));
        expect(await bench.rows("entries")).toEqual(rowsAfter(changes).entries);
        expect(bench.contradictions()).toEqual([]);
        await life.kill();
      }
      await using next = await bench.live();
      await next.sink.open();
      expect(await missingOf(next.sink)).toEqual([]);
    },
  );

  test("a first copy that is given up was not made, and may be made between two batches", async () => {
    await using bench = await ground.bench();
    await using life = await bench.live();
    const { sink } = life;
    await prepare(sink, "initial");
    {
      await using copy = await begin(sink, "initial");
      await carry(life, changes.slice(0, 3));
      await copy.watch?.();
      await carry(life, changes.slice(3, 6));
      await copy.take({ ...copyOf(accounts, sourceBehind(6), { behind: 6 }), form: copy.form });
    }
    expect(await missingOf(sink)).toEqual(["public.accounts"]);
    await sink.flush();
    await sink.copyTable(copyOf(accounts, sourceBehind(8), { behind: 8 }));
    await carry(life, changes.slice(6));
    await sink.flush();
    expect(await bench.rows("accounts")).toEqual(sourceBehind(12));
  });

  test("a first copy amid which the service was killed was not made, and the next life makes it", async () => {
    await using bench = await ground.bench();
    await using first = await bench.live();
    await prepare(first.sink, "initial");
    const broken = await begin(first.sink, "initial");
    await carry(first, changes.slice(0, 3));
    await broken.watch?.();
    await carry(first, changes.slice(3, 6));
    const request = copyOf(accounts, sourceBehind(6), { behind: 6, amid: () => first.kill() });
    expect(await outcomeOf("the copy", broken.take({ ...request, form: broken.form }))).not.toBeNull();
    await using second = await bench.live();
    const { sink } = second;
    const from = await openOrBegin(sink);
    expect(await missingOf(sink)).toEqual(["public.accounts"]);
    {
      await using copy = await begin(sink, "initial");
      await carry(second, changes.slice(0, 7), { from });
      await copy.watch?.();
      await copy.take({ ...copyOf(accounts, sourceBehind(7), { behind: 7 }), form: copy.form });
      await carry(second, changes.slice(7, 9), { from });
      await copy.compare();
      await settle(sink, copy, 9);
    }
    await carry(second, changes.slice(9), { from });
    await sink.flush();
    expect(await missingOf(sink)).toEqual([]);
    expect(await bench.rows("accounts")).toEqual(sourceBehind(12));
    expect(bench.contradictions()).toEqual([]);
  });

  test("its own signal ends it while nothing answers, and the sink goes on", async () => {
    await using bench = await ground.bench();
    await using life = await bench.live();
    const { sink } = life;
    await prepare(sink, "merge");
    await carry(life, changes.slice(0, 6));
    await sink.flush();
    const stop = new AbortController();
    const reason = new Error("cut");
    const copy = await begin(sink, "merge", stop.signal);
    bench.silence();
    const request = copyOf(accounts, sourceBehind(6), { mode: "merge", behind: 6 });
    const ended = outcomeOf("the copy", copy.take({ ...request, form: copy.form }));
    await Bun.sleep(20);
    stop.abort(reason);
    expect(await ended).toBe(reason);
    await bench.answer();
    await copy[Symbol.asyncDispose]();
    await carry(life, changes.slice(6));
    await sink.flush();
    expect(await bench.rows("accounts")).toEqual(sorted([...sourceBehind(12), { id: 900, v: "stray" }]));
  });
});
