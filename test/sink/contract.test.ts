// What src/sink/sink.ts promises, shown for every kind of sink that test/support/contract/kinds.ts lists: what it opens with, order,
// durability, repetition. Back-pressure, failure and stopping are in contract-trouble.test.ts, copies in contract-copies.test.ts.

import { describe, expect, test } from "bun:test";
import { type Checkpoint, isDone } from "../../src/change/checkpoint.ts";
import { bothTables, type SinkBench, type SinkLife } from "../support/contract/bench.ts";
import { carry, lived, ready } from "../support/contract/carrying.ts";
import {
  beginning,
  contractTables,
  entries,
  growth,
  history,
  insert,
  risingSteps,
  rowsAfter,
} from "../support/contract/history.ts";
import { describeSinks } from "../support/contract/kinds.ts";
import { pick } from "../support/matrix.ts";
import { batches, transaction } from "../support/rows/batch-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

/** How far it leads: the place behind what is done under it. */
function placeOf({ resumeLsn, partial }: Checkpoint): readonly [bigint, bigint, number] {
  return [resumeLsn, partial?.commitLsn ?? 0n, partial?.ordinal ?? -1];
}

function isBehind(one: Checkpoint, other: Checkpoint): boolean {
  const [a, b] = [placeOf(one), placeOf(other)];
  const at = a.findIndex((value, i) => value !== b[i]);
  return at >= 0 && a[at]! < b[at]!;
}

/** Those entries that are done under the checkpoint and not at the target. */
async function lacking(bench: SinkBench, checkpoint: Checkpoint): Promise<readonly number[]> {
  const due = rowsAfter(growth, checkpoint).entries;
  const held = new Set((await bench.rows("entries")).map(({ id }) => id));
  return due.map(({ id }) => id).filter((id) => !held.has(id));
}

describeSinks("", (kind, ground) => {
  describe("opening", () => {
    test("tells that nothing was ever begun, also when it has been opened before", async () => {
      await using bench = await ground.bench();
      for (let i = 0; i < 2; i++) {
        await using life = await bench.live();
        expect(await life.sink.open()).toBeNull();
      }
    });

    test("tells what was begun, though the service was killed as soon as that returned", async () => {
      await using bench = await ground.bench();
      await using first = await bench.live();
      await first.sink.open();
      await first.sink.begin(beginning);
      await first.kill();
      await using second = await bench.live();
      expect(await second.sink.open()).toEqual(beginning);
    });

    test("tells what was durable last, behind an orderly end as behind a kill", async () => {
      await using bench = await ground.bench();
      for (const [half, end] of [
        [growth.slice(0, 10), "orderly"],
        [growth, "killed"],
      ] as const) {
        await using life = await bench.live();
        const from = await ready(life.sink);
        await carry(life, half, { from, perBatch: 3 });
        await life.sink.flush();
        if (end === "killed") await life.kill();
        else await life.sink[Symbol.asyncDispose]();
        await using next = await bench.live();
        expect(await next.sink.open()).toEqual(life.told.durable.at(-1)!.checkpoint);
      }
    });

    test("tells the log that it was told to go on in, and what was delivered stays", async () => {
      await using bench = await ground.bench();
      await using first = await bench.live();
      await ready(first.sink);
      await carry(first, growth);
      await first.sink.flush();
      const before = first.told.durable.at(-1)!.checkpoint;
      await first.sink.goOnIn("another log");
      await first.kill();
      await using second = await bench.live();
      expect(await second.sink.open()).toEqual({ ...before, log: "another log" });
      expect((await second.sink.prepare(contractTables, ["text"])).missing).toEqual([]);
      expect(await bothTables(bench)).toEqual(rowsAfter(growth));
    });

    test.each([false, true])(
      "tells nothing once it was forgotten (keepsShapes: %p), and what was delivered stays",
      async (keepsShapes) => {
        await using bench = await ground.bench();
        {
          await using life = await bench.live();
          await ready(life.sink);
          await carry(life, growth);
          await life.sink.flush();
          await life.sink.forget(keepsShapes);
          await life.kill();
        }
        await using next = await bench.live();
        expect(await next.sink.open()).toBeNull();
        expect(await bothTables(bench)).toEqual(rowsAfter(growth));
        await next.sink.begin(beginning);
        expect((await next.sink.prepare(contractTables, ["text"])).missing).toEqual([...contractTables]);
      },
    );
  });

  describe("order", () => {
    test.each(pick([1, 9], (perBatch) => perBatch === 9))(
      "changes of a row come in the stream's order, in batches of %p that end anywhere",
      async (perBatch) => {
        await using bench = await ground.bench();
        await using life = await bench.live();
        await ready(life.sink);
        const changes = history(perBatch, 40);
        await carry(life, changes, { perBatch });
        await life.sink.flush();
        expect(await bothTables(bench)).toEqual(rowsAfter(changes));
        expect(bench.contradictions()).toEqual([]);
      },
    );
  });

  describe("durability", () => {
    test("checkpoints are told in rising order, each when the target has all before it, and count what was written", async () => {
      await using bench = await ground.bench();
      const looks: Promise<readonly number[]>[] = [];
      await using life = await bench.live({
        durable: (checkpoint) => looks.push(lacking(bench, checkpoint)),
      });
      await ready(life.sink);
      await carry(life, growth, { perBatch: 2 });
      await life.sink.flush();
      const { durable } = life.told;
      expect(durable.length).toBeGreaterThan(0);
      expect((await Promise.all(looks)).flat()).toEqual([]);
      const told = [beginning, ...durable.map(({ checkpoint }) => checkpoint)];
      expect(told.filter((each, i) => i > 0 && !isBehind(told[i - 1]!, each))).toEqual([]);
      expect(durable.reduce((sum, { rows }) => sum + rows, 0)).toBe(rowsAfter(growth).entries.length);
      expect(durable.every(({ bytes }) => bytes > 0)).toBe(true);
    });

    test("nothing is durable while the target takes nothing", async () => {
      await using bench = await ground.bench();
      await using life = await bench.live();
      await ready(life.sink);
      await bench.keepBusy();
      const carried = carry(life, growth, { perBatch: 2 }).then(() => life.sink.flush());
      await bench.metBusy();
      expect(life.told.durable).toEqual([]);
      await bench.answer();
      await carried;
      expect(life.told.durable.at(-1)?.checkpoint.resumeLsn).toBe(growth.at(-1)?.endLsn);
    });

    test.each(pick([1, 3], (times) => times === 3))(
      "what is told for the %p. time outlives a kill at that moment",
      async (times) => {
        await using bench = await ground.bench();
        let told: Checkpoint | null = null;
        const durable = (checkpoint: Checkpoint, life: SinkLife) => {
          if (life.told.durable.length !== times || life.isDead) return;
          told = checkpoint;
          void life.kill();
        };
        await using first = await bench.live({ durable });
        const isThrough = await lived(first, async () => {
          await ready(first.sink);
          for (const each of growth) {
            await carry(first, [each]);
            await first.sink.flush();
          }
        });
        expect(isThrough).toBe(false);
        await first.kill();
        await using second = await bench.live();
        const known = await second.sink.open();
        expect(isBehind(known!, told!)).toBe(false);
        expect(await lacking(bench, known!)).toEqual([]);
      },
    );

    test("a flush returns when everything written is durable, but for the beginning of a transaction where those are written whole", async () => {
      await using bench = await ground.bench();
      await using first = await bench.live();
      await ready(first.sink);
      const open = transaction(21, [insert(entries, 1000), insert(entries, 1001)]);
      const [beginningOfIt] = batches([open], { perBatch: 1 });
      await carry(first, growth, { perBatch: 3 });
      await first.sink.write(beginningOfIt!);
      await first.sink.flush();
      const told = first.told.durable.at(-1)!.checkpoint;
      await first.kill();
      expect(isDone(told, { commitLsn: growth.at(-1)!.commitLsn, ordinal: 2 })).toBe(true);
      expect(isDone(told, { commitLsn: open.commitLsn, ordinal: 0 })).toBe(!kind.isTransactional);
      await using second = await bench.live();
      const known = await second.sink.open();
      expect(known).toEqual(told);
      expect(await bothTables(bench)).toEqual(rowsAfter([...growth, open], known!));
    });
  });

  describe("repetition", () => {
    const deaths = [
      ["each step", growth, (death: number) => death + 1],
      ["steps that are drawn (seed 1)", history(1, 14), risingSteps(1)],
    ] as const;
    // So many lives are cheap in memory alone.
    test.each(pick(deaths, ([at]) => at !== "each step" || kind.name === "memory"))(
      "changes that come again after deaths at %s are had once",
      async (_, changes, stepOf) => {
        await using bench = await ground.bench();
        let deaths = 0;
        for (let isThrough = false; !isThrough; deaths++) {
          await using life = await bench.live();
          const from = await ready(life.sink);
          if (kind.isTransactional) expect(await bothTables(bench)).toEqual(rowsAfter(changes, from));
          life.dieIn(stepOf(deaths));
          isThrough = await lived(life, async () => {
            await carry(life, changes, { from, perBatch: 2 + (deaths % 7) });
            await life.sink.flush();
          });
        }
        expect(deaths).toBeGreaterThan(2);
        expect(await bothTables(bench)).toEqual(rowsAfter(changes));
        expect(bench.contradictions()).toEqual([]);
      },
    );

    test("what is written again behind the durable checkpoint, cut otherwise, is had once", async () => {
      await using bench = await ground.bench();
      const changes = history(3, 40);
      for (const [perBatch, given] of [
        [5, 15],
        [3, 28],
        [11, 40],
      ] as const) {
        await using life = await bench.live();
        const from = await ready(life.sink);
        const before = (await bench.rows("entries")).length;
        await carry(life, changes.slice(0, given), { from, perBatch });
        const hasMore = async () => (await bench.rows("entries")).length > before;
        await waitFor("some of it to arrive", hasMore, { intervalMs: 1 });
        await life.kill();
      }
      await using last = await bench.live();
      const from = await ready(last.sink);
      await carry(last, changes, { from, perBatch: 4 });
      await last.sink.flush();
      expect(await bothTables(bench)).toEqual(rowsAfter(changes));
      expect(bench.contradictions()).toEqual([]);
    });
  });
});
