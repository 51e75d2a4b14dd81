// Over a transport that commits messages and record together: what is in a commit, and that nothing waits for the end of a transaction while
// the stream does not go on.

import { describe, expect, test } from "bun:test";
import { isDone } from "../../../../src/change/checkpoint.ts";
import { carry, chunkOf, copyTable, never, outcomeOf, ready } from "../../../support/contract/carrying.ts";
import { accounts, contractTables, entries, insert, rowsOf } from "../../../support/contract/history.ts";
import { batches, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { type CommittingRig, committingRig } from "../../../support/webhook/committing-rig.ts";
import { RecordStore } from "../../../support/webhook/webhook-rig.ts";

/** Three changes, of which a batch has the first two. */
const large = transaction(3, [
  insert(entries, 31, "large"),
  insert(entries, 32, "large"),
  insert(entries, 33, "large"),
]);
const small = [transaction(1, [insert(entries, 1)]), transaction(2, [insert(entries, 2)])];

async function begun(): Promise<CommittingRig> {
  const rig = committingRig(new RecordStore());
  await ready(rig.sink);
  return rig;
}

/** Writes the small transactions and the beginning of the large one, as one batch. Returns what writes its end. */
async function writeBeginning({ sink }: CommittingRig): Promise<() => Promise<void>> {
  const [first, rest] = batches([...small, large], { perBatch: 4 });
  expect(first!.endsInTransaction).toBe(true);
  await sink.write(first!);
  return () => sink.write(rest!);
}

const committed = (rig: CommittingRig) => rig.commits.flat();
const isLargeDone = ({ told }: CommittingRig) =>
  isDone(told.durable.at(-1)!.checkpoint, { commitLsn: large.commitLsn, ordinal: 0 });

describe("a transaction that comes in pieces", () => {
  test("is committed whole, and what came before it is committed without it, also by a flush amid it", async () => {
    await using rig = await begun();
    const writeEnd = await writeBeginning(rig);
    await rig.sink.flush();
    expect(committed(rig)).toEqual(["public.entries v1", "public.entries v2"]);
    expect(isLargeDone(rig)).toBe(false);
    await writeEnd();
    await rig.sink.flush();
    expect(rig.commits.at(-1)).toEqual(Array(3).fill("public.entries large"));
    expect(isLargeDone(rig)).toBe(true);
  });

  test("is committed with what came before where a chunk of a copy is under way then, which the stream does not wait for", async () => {
    await using rig = await begun();
    const { sink } = rig;
    await using copy = await sink.copies.begin(accounts, "merge", "runs", never);
    await copy.start(false);
    const written = Promise.withResolvers<() => Promise<void>>();
    const amid = async () => {
      // The first half of the rows has come by then.
      await Bun.sleep(30);
      written.resolve(await writeBeginning(rig));
    };
    const taken = copy.take(chunkOf(accounts, rowsOf("1:a 2:b 3:c 4:d"), { amid }));
    const writeEnd = await written.promise;
    await writeEnd();
    await taken;
    await sink.flush();
    expect(committed(rig)).toContain("public.accounts d");
    expect(committed(rig)).toContain("public.entries v2");
  });

  test("is committed whole though rows of copies come amid it, and tables are looked at", async () => {
    await using rig = await begun();
    const { sink } = rig;
    await using copy = await sink.copies.begin(accounts, "merge", "runs", never);
    await copy.start(true);
    const writeEnd = await writeBeginning(rig);
    const range = { kind: "range", range: { from: 0, to: null } } as const;
    const taken = copy.take(chunkOf(accounts, rowsOf("1:a 2:b"), { part: range }));
    for (let i = 0; i < 10; i++) {
      await Bun.sleep(5);
      await sink.prepare(contractTables, ["text"]);
    }
    expect(committed(rig)).toEqual(["public.entries v1", "public.entries v2"]);
    await writeEnd();
    await taken;
    await sink.flush();
    const { length } = rig.commits.filter((rows) => rows.includes("public.entries large"));
    expect(length).toBe(1);
    expect(committed(rig)).toContain("public.accounts b");
  });

  test("is committed in parts where it takes too long, and goes on there in the next run", async () => {
    const store = new RecordStore();
    const before: string[] = [];
    {
      await using rig = committingRig(store, 20);
      await ready(rig.sink);
      await writeBeginning(rig);
      await waitFor("a commit amid the transaction", () => committed(rig).length === 4 && isLargeDone(rig));
      before.push(...committed(rig));
    }
    await using rig = committingRig(store, 20);
    const from = await ready(rig.sink);
    expect(from.partial).toEqual({ commitLsn: large.commitLsn, ordinal: 1 });
    await carry(rig, [...small, large], { from });
    await rig.sink.flush();
    expect([...before, ...committed(rig)]).toEqual(
      ["v1", "v2", "large", "large", "large"].map((v) => `public.entries ${v}`),
    );
  });

  test.each(["prepare", "copies", "takeRows", "forget"] as const)(
    "is not waited for by %s, which the stream waits for",
    async (call) => {
      await using rig = await begun();
      const { sink } = rig;
      await writeBeginning(rig);
      const calls = {
        prepare: () => sink.prepare([accounts], ["text"]),
        copies: () => copyTable(sink, accounts, rowsOf("1:a 2:b"), { mode: "merge" }),
        takeRows: () => {
          const part = { kind: "rows", keys: [["1"]] } as const;
          return sink.copies.takeRows(chunkOf(accounts, rowsOf("1:a"), { part }));
        },
        forget: () => sink.forget(false),
      };
      expect(await outcomeOf(call, calls[call]())).toBeNull();
      if (call === "copies") expect(committed(rig)).toContain("public.accounts b");
    },
  );
});

test("a chunk beside the stream is durable once it is settled, as a whole and in ranges", async () => {
  await using rig = await begun();
  const { sink } = rig;
  for (const range of [null, { from: 0, to: null }]) {
    await using copy = await sink.copies.begin(accounts, "merge", "runs", never);
    await copy.start(range !== null);
    const part = range ? { part: { kind: "range", range } as const } : {};
    await copy.take(chunkOf(accounts, rowsOf(range ? "1:range" : "1:whole"), part));
    expect(await copy.settle()).toBe("all");
    expect(committed(rig)).toContain(range ? "public.accounts range" : "public.accounts whole");
    while ((await copy.finish()) === "more") {}
  }
});

test("a run that goes on has each change once, wherever the one before it ended", async () => {
  const store = new RecordStore();
  const changes = [...small, large, transaction(4, [insert(entries, 4)])];
  const all: string[] = [];
  for (const given of [1, 3, 4]) {
    await using rig = committingRig(store);
    const from = await ready(rig.sink);
    await carry(rig, changes.slice(0, given), { from, perBatch: 2 });
    await rig.sink.flush();
    all.push(...committed(rig));
  }
  expect(all).toEqual(["v1", "v2", "large", "large", "large", "v4"].map((v) => `public.entries ${v}`));
  await using rig = committingRig(store);
  await rig.sink.open();
  expect((await rig.sink.prepare(contractTables, ["text"])).missing).toEqual([]);
});
