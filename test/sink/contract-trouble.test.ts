// What src/sink/sink.ts promises of bad times, shown for every kind of sink that test/support/contract/kinds.ts lists: back-pressure,
// failure, stopping.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { isDone, reachOf } from "../../src/change/checkpoint.ts";
import type { Sink } from "../../src/sink/sink.ts";
import { bothTables, refusedValue, type SinkBench, type SinkLife } from "../support/contract/bench.ts";
import {
  carry,
  chunkOf,
  copyTable,
  missingOf,
  never,
  openOrBegin,
  outcomeOf,
  ready,
  writeAndReuse,
} from "../support/contract/carrying.ts";
import {
  accounts,
  beginning,
  contractTables,
  entries,
  growth,
  history,
  insert,
  rowsAfter,
  update,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { pick } from "../support/matrix.ts";
import { batches, transaction } from "../support/rows/batch-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

const reason = new Error("stopped");

/** While it waits for its target, unless it has nothing to ask of it. */
async function stopSoon(life: SinkLife): Promise<void> {
  await Bun.sleep(20);
  life.stop(reason);
}

async function disposed(sink: Sink): Promise<void> {
  await sink[Symbol.asyncDispose]();
}

describeSinks("", (kind, ground) => {
  describe("back-pressure", () => {
    test("while the target takes nothing, writing stops with a bounded amount on its way, and goes on when it takes", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      await ready(life.sink);
      await bench.keepBusy();
      const value = "x".repeat(500_000);
      const most = 100;
      let returned = 0;
      let isEnough = false;
      const writing = (async () => {
        for (let n = 0; n < most && !isEnough; n++) {
          const pair = [insert(entries, 2 * n, value), insert(entries, 2 * n + 1, value)];
          await carry(life, [transaction(n + 1, pair)]);
          returned++;
        }
      })();
      await bench.metBusy();
      let seen = -1;
      const stands = () => {
        const before = seen;
        seen = returned;
        return before === seen;
      };
      await waitFor("writing to stand", stands, { intervalMs: 700 });
      // A megabyte each.
      expect(returned).toBeLessThan(50);
      isEnough = true;
      const standing = returned;
      await bench.answer();
      await writing;
      expect(returned).toBeGreaterThan(standing);
      await life.sink.flush();
      const held = await bench.rows("entries");
      expect(held.map(({ id }) => id)).toEqual(Array.from({ length: 2 * returned }, (_, id) => id));
      expect(life.told.retrying.at(-1) ?? null).toBeNull();
    });

    test("a batch's memory is used no more once it was written", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      await ready(life.sink);
      for (const batch of batches(growth, { perBatch: 4 })) {
        await life.sink.write(batch);
        const numbers = [
          batch.kind,
          batch.flags,
          batch.relation,
          batch.ordinal,
          batch.newStart,
          batch.newEnd,
        ];
        // What has moved to another thread is out of reach.
        for (const each of [batch.arena, ...numbers]) if (each.byteLength > 0) each.fill(0x7f);
      }
      await life.sink.flush();
      expect(await bothTables(bench)).toEqual(rowsAfter(growth));
    });
  });

  describe("failure", () => {
    test("a failed call leaves the checkpoint where it was, and another sink goes on from there", async () => {
      await using bench = await ground.bench();
      const refused = transaction(11, [
        insert(entries, 500),
        insert(entries, 501, refusedValue),
        insert(accounts, 1),
      ]);
      const behind = transaction(12, [insert(entries, 502), update(1, "later")]);
      const changes = [...growth.slice(0, 10), refused, behind];
      let durable = beginning;
      for (let attempt = 0; attempt < 2; attempt++) {
        await using life = await bench.live();
        const from = await ready(life.sink);
        const { reached, ...place } = from;
        expect(place).toEqual(durable);
        // What was refused may have been received.
        if (reached !== undefined) expect(reachOf(from)).toBeGreaterThan(refused.commitLsn);
        if (attempt === 0) await bench.refuse(true);
        const calls = carry(life, changes, { from }).then(() => life.sink.flush());
        expect(await outcomeOf("what is refused", calls)).toMatchObject({ name: "MillraceError" });
        const [failure] = life.told.failed;
        if (failure) expect(await outcomeOf("another call", life.sink.flush())).toEqual(failure);
        durable = life.told.durable.at(-1)?.checkpoint ?? durable;
        expect(isDone(durable, { commitLsn: refused.commitLsn, ordinal: 1 })).toBe(false);
      }
      await bench.refuse(false);
      await using life = await bench.live();
      const from = await openOrBegin(life.sink);
      const { reached: _, ...place } = from;
      expect(place).toEqual(durable);
      expect((await life.sink.prepare(contractTables, ["text"])).missing).toEqual([]);
      await carry(life, changes, { from });
      await life.sink.flush();
      expect(await bothTables(bench)).toEqual(rowsAfter(changes));
    });
  });

  describe("stopping", () => {
    const copied = [
      { id: 1, v: "copied" },
      { id: 2, v: "copied" },
    ];
    const calls: Readonly<Record<string, (sink: Sink) => Promise<unknown>>> = {
      prepare: (sink) => sink.prepare(contractTables, ["text"]),
      goOnIn: (sink) => sink.goOnIn("another log"),
      "beginning a copy": (sink) => sink.copies.begin(accounts, "merge", "runs", never),
      takeRows: (sink) => {
        const part = { kind: "rows", keys: [["1"], ["2"]] } as const;
        return sink.copies.takeRows(chunkOf(accounts, copied, { part }));
      },
      forget: (sink) => sink.forget(false),
      write: async (sink) => {
        const value = "x".repeat(1_000_000);
        for (let n = 1; ; n++) await carry({ sink }, [transaction(n, [insert(entries, n, value)])]);
      },
    };
    /** Of which a sink may have nothing to say to its target. */
    const mayBeQuiet = new Set(["prepare", "beginning a copy"]);

    let bench: SinkBench;
    beforeAll(async () => {
      bench = await ground.bench();
    });
    afterEach(() => bench.answer());
    afterAll(() => bench[Symbol.asyncDispose]());

    test("the signal ends opening while nothing answers", async () => {
      bench.silence();
      {
        await using life = await bench.live();
        const opened = outcomeOf("opening", life.sink.open());
        await stopSoon(life);
        expect(await opened).toBe(reason);
      }
      await bench.answer();
    });

    test.each(Object.keys(calls).filter((name) => kind.asksForRows || name !== "takeRows"))(
      "the signal ends %s while nothing answers, and all that is called later",
      async (name) => {
        {
          await using life = await bench.live();
          await ready(life.sink);
          bench.silence();
          const ended = outcomeOf(name, calls[name]!(life.sink));
          await stopSoon(life);
          const outcome = await ended;
          if (!(mayBeQuiet.has(name) && outcome === null)) expect(outcome).toBe(reason);
          expect(await outcomeOf("prepare", life.sink.prepare(contractTables, ["text"]))).toBe(reason);
          expect(await outcomeOf("disposing", disposed(life.sink))).toBeNull();
        }
        await bench.answer();
        await using next = await bench.live();
        expect(await openOrBegin(next.sink)).toMatchObject({ resumeLsn: beginning.resumeLsn });
        expect(await bothTables(bench)).toEqual({ accounts: [], entries: [] });
      },
    );

    const steps = ["start", "take", "settle", "finish"] as const;
    type Step = (typeof steps)[number];
    const ways = (["waits", "runs"] as const).flatMap((stream) =>
      (kind.takesRanges ? [false, true] : [false]).map((isDivided) => ({ stream, isDivided })),
    );

    // Every day each step once, and another way each time.
    const stopped = steps.flatMap((step, i) =>
      pick(ways, (_, j) => j === (i + 2) % ways.length).map((way) => ({ ...way, step })),
    );
    test.each(stopped)(
      "the signal ends a copy at its $step while nothing answers (the stream $stream, in ranges: $isDivided)",
      async ({ stream, isDivided, step }) => {
        await using bench = await ground.bench();
        {
          await using life = await bench.live();
          await ready(life.sink);
          await using copy = await life.sink.copies.begin(accounts, "merge", stream, never);
          const part = isDivided ? { part: { kind: "range", range: { from: 0, to: null } } as const } : {};
          const calls: Record<Step, () => Promise<unknown>> = {
            start: () => copy.start(isDivided),
            take: () => copy.take(chunkOf(accounts, copied, part)),
            settle: () => copy.settle(),
            finish: () => copy.finish(),
          };
          for (const before of steps.slice(0, steps.indexOf(step))) await calls[before]();
          bench.silence();
          const ended = outcomeOf(step, calls[step]());
          await stopSoon(life);
          const outcome = await ended;
          // The others need not say anything to the target.
          if (step === "take" || outcome !== null) expect(outcome).toBe(reason);
          expect(await outcomeOf("prepare", life.sink.prepare(contractTables, ["text"]))).toBe(reason);
          expect(await outcomeOf("disposing", copy[Symbol.asyncDispose]() as Promise<void>)).toBeNull();
        }
        await bench.answer();
        const { entries: none, accounts: held } = await bothTables(bench);
        expect(none).toEqual([]);
        expect([[], copied]).toContainEqual([...held]);
        await using next = await bench.live();
        await next.sink.open();
        expect(await missingOf(next.sink)).toEqual([]);
        await copyTable(next.sink, accounts, copied, { mode: "merge", behind: 1 });
        expect(await bench.rows("accounts")).toEqual(copied);
      },
    );

    test("the signal ends a flush, and nothing is half there: what was written comes again, and is had once", async () => {
      await using bench = await ground.bench();
      const changes = history(2, 20);
      const amid = batches(changes, { perBatch: 7 }).findIndex(({ endsInTransaction }) => endsInTransaction);
      {
        await using life = await bench.live();
        await ready(life.sink);
        for (const batch of batches(changes, { perBatch: 7 }).slice(0, amid + 1))
          await writeAndReuse(life.sink, batch);
        bench.silence();
        const ended = outcomeOf("flush", life.sink.flush());
        await stopSoon(life);
        const outcome = await ended;
        // It has nothing to wait for where each batch is durable when it is written.
        if (!(kind.isTransactional && outcome === null)) expect(outcome).toBe(reason);
      }
      await bench.answer();
      await using next = await bench.live();
      const from = await ready(next.sink);
      const { entries: held } = await bothTables(bench);
      if (kind.isTransactional) expect(await bothTables(bench)).toEqual(rowsAfter(changes, from));
      const all = rowsAfter(changes).entries;
      expect(held.filter(({ id, v }) => !all.some((row) => row.id === id && row.v === v))).toEqual([]);
      await carry(next, changes, { from, perBatch: 5 });
      await next.sink.flush();
      expect(await bothTables(bench)).toEqual(rowsAfter(changes));
      expect(bench.contradictions()).toEqual([]);
    });
  });
});
