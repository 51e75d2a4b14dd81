// Over a transport that commits messages and record together: what the record says of a copy beside its rows, and that chunks neither keep
// a commit from being made nor wait for one.

import { expect, test } from "bun:test";
import type { SavedRecord } from "../../../../src/connector/saved-record.ts";
import {
  chunkOf,
  copyTable,
  missingOf,
  never,
  openOrBegin,
  outcomeOf,
} from "../../../support/contract/carrying.ts";
import { accounts, contractTables, rowsOf } from "../../../support/contract/history.ts";
import { tableShape } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import {
  type CommittedRow,
  type CommittingRig,
  committingRig,
} from "../../../support/webhook/committing-rig.ts";
import { RecordStore } from "../../../support/webhook/webhook-rig.ts";

const customers = tableShape({ ...accounts.relation, id: 16_600, name: "customers" });

/** No table is copied. */
async function begun(commitWithinMs?: number): Promise<CommittingRig> {
  const rig = committingRig(new RecordStore(), commitWithinMs);
  await openOrBegin(rig.sink);
  await missingOf(rig.sink);
  return rig;
}

/** Tables that are still to be copied by a run over the record, as it was left by a crash. */
async function missingAfter(record: SavedRecord): Promise<readonly string[]> {
  const store = new RecordStore();
  store.record = record;
  await using rig = committingRig(store);
  await openOrBegin(rig.sink);
  return await missingOf(rig.sink);
}

/** The record in the commit that has the row. */
function recordWith({ commits, records }: CommittingRig, row: CommittedRow): SavedRecord {
  return records[commits.findIndex((rows) => rows.includes(row))]!;
}

const tables = contractTables.map((table) => [table.relation.name, table] as const);
const otherThan = (table: (typeof contractTables)[number]) =>
  contractTables.filter((each) => each !== table).map(({ relation }) => `public.${relation.name}`);

test.each(tables)(
  "the table %s, whose copy the stream waits for, is not copied again after a crash behind the commit with all its rows",
  async (name, table) => {
    await using rig = await begun();
    await copyTable(rig.sink, table, rowsOf("1:a 2:b 3:c"));
    expect(await missingAfter(recordWith(rig, `public.${name} c`))).toEqual(otherThan(table));
  },
);

test("a table that is copied beside the stream is not copied again after a crash behind the commit with all its rows", async () => {
  await using rig = await begun();
  await using copy = await rig.sink.copies.begin(accounts, "initial", "runs", never);
  await copy.start(false);
  await copy.take(chunkOf(accounts, rowsOf("1:a 2:b 3:c")));
  while ((await copy.settle()) !== "all") {}
  expect(await missingAfter(recordWith(rig, "public.accounts c"))).toEqual(otherThan(accounts));
  while ((await copy.finish()) === "more") {}
});

test.each(tables)(
  "the copy of %s as a whole is committed in parts where it takes too long, and is copied again after a crash amid it",
  async (name, table) => {
    await using rig = await begun(40);
    // Rows of the first half are added and nobody asks for a commit: the second half comes once they are committed.
    const amid = () => waitFor("a commit amid the chunk", () => rig.commits.length > 0, { timeoutMs: 5_000 });
    const rows = ["a", "b", "c", "d"].map((letter, id) => ({ id, v: letter.repeat(700_000) }));
    await copyTable(rig.sink, table, rows, { amid });
    const lettersOf = (some: readonly CommittedRow[]) => some.map((row) => row.at(-1));
    expect(lettersOf(rig.commits.flat())).toEqual(["a", "b", "c", "d"]);
    expect(lettersOf(rig.commits[0]!)).not.toContain("c");
    expect(await missingAfter(rig.records[0]!)).toContain(`public.${name}`);
    expect(await missingAfter(rig.records.at(-1)!)).not.toContain(`public.${name}`);
  },
);

test("the first copy of a table begins beside a chunk of another one as soon as that ends, however long a commit may wait", async () => {
  await using rig = await begun();
  const { sink } = rig;
  await using copy = await sink.copies.begin(accounts, "initial", "runs", never);
  await copy.start(false);
  let began: Promise<unknown> = Promise.resolve("it was not asked for");
  const amid = async () => {
    // What the record says of it is saved first.
    began = outcomeOf("the beginning", sink.copies.begin(customers, "initial", "runs", never));
    // The other half of the rows, and the end, come behind it.
    await Bun.sleep(30);
  };
  const taken = copy.take(chunkOf(accounts, rowsOf("1:a 2:b 3:c 4:d"), { amid }));
  expect(await outcomeOf("the chunk", taken)).toBeNull();
  expect(await began).toBeNull();
  expect(rig.commits.flat()).toContain("public.accounts d");
});
