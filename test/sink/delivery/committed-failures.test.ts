// Over a transport that commits messages and record together: what is committed when a row fails, or when the sink ends amid its work.

import { expect, test } from "bun:test";
import { isDone } from "../../../src/change/checkpoint.ts";
import { openOrBegin, ready } from "../../support/contract/carrying.ts";
import { accounts, entries, insert } from "../../support/contract/history.ts";
import { batches, type FixtureTransaction, transaction } from "../../support/rows/batch-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type CommittedRow, committingRig } from "../../support/webhook/committing-rig.ts";
import { RecordStore } from "../../support/webhook/webhook-rig.ts";

const entry = (n: number) => transaction(n, [insert(entries, n)]);

/** Where a run over the same record goes on. */
async function whereItGoesOn({ record }: RecordStore) {
  const store = new RecordStore();
  store.record = record;
  await using rig = committingRig(store);
  return await openOrBegin(rig.sink);
}

/** Rows of `transactions`, one in each, that a run over the record does not bring again. */
async function doneRows(store: RecordStore, transactions: readonly FixtureTransaction[]) {
  const from = await whereItGoesOn(store);
  const done = transactions.filter(({ commitLsn }) => isDone(from, { commitLsn, ordinal: 0 }));
  return done.map(({ xid }): CommittedRow => `public.entries v${xid - 700}`);
}

test.each([0, 1, 5, 30])(
  "a row that fails while the sink is being closed has nothing behind it committed (after %i ms)",
  async (afterMs) => {
    const store = new RecordStore();
    const bad = 2500;
    const refuses = (row: CommittedRow) => row === `public.entries v${bad}`;
    const transactions = Array.from({ length: 3100 }, (_, i) => entry(i + 1));
    const committed: CommittedRow[] = [];
    {
      await using rig = committingRig(store, 60_000, { saveMs: 30, windowRows: 400, refuses });
      await ready(rig.sink);
      // The second batch waits behind the one that fails.
      const [first] = batches(transactions.slice(0, 3000));
      const [second] = batches(transactions.slice(3000));
      const written = Promise.allSettled([rig.sink.write(first!), rig.sink.write(second!)]);
      await Bun.sleep(afterMs);
      await rig.sink[Symbol.asyncDispose]();
      await written;
      committed.push(...rig.commits.flat());
    }
    const have = new Set(committed);
    const lost = (await doneRows(store, transactions)).filter((row) => !have.has(row));
    expect(lost).toEqual([]);
    const behind = transactions.slice(bad).map(({ xid }) => `public.entries v${xid - 700}`);
    expect(behind.filter((row) => have.has(row as CommittedRow))).toEqual([]);
  },
);

test("a change of a key of which only the removal could be added is not committed, and comes again", async () => {
  const store = new RecordStore();
  const before = [String(1), null];
  const after = [String(2), "new"];
  const moved = transaction(3, [
    { kind: "update", relation: accounts.relation, before, oldIsKey: true, after },
  ]);
  const refuses = (row: CommittedRow) => row === "public.accounts new";
  await using rig = committingRig(store, 60_000, { saveMs: 60, refuses });
  await ready(rig.sink);
  const [first] = batches([entry(1)]);
  await rig.sink.write(first!);
  // The commit of the first is under way, and one waits for it.
  await Bun.sleep(30);
  const [second] = batches([entry(2)]);
  await rig.sink.write(second!);
  await Bun.sleep(15);
  const [third] = batches([moved]);
  await rig.sink.write(third!).catch(() => undefined);
  await waitFor("the failure", () => rig.told.failed.length === 1);
  await rig.sink[Symbol.asyncDispose]();
  expect(rig.told.failed).toMatchObject([{ code: "kafka_message_too_large" }]);
  expect(rig.commits.flat().filter((row) => row.startsWith("public.accounts"))).toEqual([]);
  expect(isDone(await whereItGoesOn(store), { commitLsn: moved.commitLsn, ordinal: 0 })).toBe(false);
});

/** A thread that only waits for itself answers nothing: it is one of another process. */
test("a sink that is closed while a commit waits for the end of a transaction is closed, and its thread goes on", async () => {
  const script = new URL("../../support/runtime/stop-while-a-save-waits.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, script], { timeout: 20_000, stdout: "pipe", stderr: "inherit" });
  expect(await new Response(child.stdout).text()).toBe("closed\nalive\n");
});
