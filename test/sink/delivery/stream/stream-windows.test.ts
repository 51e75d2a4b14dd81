import { expect, test } from "bun:test";
import type { ChangeBatch } from "../../../../src/change/change-batch.ts";
import { KeylessCopies } from "../../../../src/sink/delivery/copy/keyless-copies.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { begunRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import { StreamWindows } from "../../../../src/sink/delivery/stream/stream-windows.ts";
import { batches, type FixtureChange, transaction } from "../../../support/batch-fixture.ts";
import { accounts, beginning, insert, update } from "../../../support/contract-history.ts";

/** Windows whose outlet takes so many rows, and then fails. */
function windowsTaking(most: number): StreamWindows {
  const monotonic = () => performance.now();
  const record = begunRecord(beginning);
  const keeper = new RecordKeeper({ save: async () => {} }, record, new SavedTables(noTables), monotonic);
  let rows = 0;
  return new StreamWindows({
    ...{ cutsMatter: false, window: { maxBytes: 1_000_000, maxChanges: 1_000 }, commitPoint: null },
    rows: new ChangeRows(Number(beginning.lastVersion), { sends: () => true }, []),
    ...{ keeper, keyless: new KeylessCopies(keeper, true) },
    outlet: ({ sent }) => ({
      addRow() {
        if (rows++ === most) throw new Error("it fails");
        sent(1, 1)();
      },
      ...{ seal() {}, addBoundary() {}, tookVersion() {} },
      ...{ hasCapacity: true, untilCapacity: async () => {} },
    }),
    ...{ durable() {}, failed() {} },
    ...{ monotonic, yieldToIo: async () => {} },
  });
}

const table = { name: "public.accounts", relation: accounts.relation, order: "byKey" } as never;
const [moved] = batches([
  transaction(1, [
    {
      ...{ kind: "update", relation: accounts.relation, before: ["1", null], oldIsKey: true },
      after: ["2", "new"],
    },
  ]),
]);

test.each([0, 1])("a change of a key is not settled when %i of its two rows are added", async (most) => {
  const windows = windowsTaking(most);
  await expect(windows.take(moved!, [table])).rejects.toThrow("it fails");
  expect(() => windows.settle()).toThrow("in part");
});

test("a change of a key is settled when both of its rows are added", async () => {
  const windows = windowsTaking(2);
  await windows.take(moved!, [table]);
  windows.settle();
  expect(windows.resumeLsn).toBe(moved!.resumeLsn);
});

/** What each change of a stream gets: with its version it is on its way, and the record says so. */
async function versionsOf(keeper: RecordKeeper, batch: ChangeBatch): Promise<readonly number[]> {
  const versions: number[] = [];
  const { checkpoint } = keeper.record;
  const windows = new StreamWindows({
    ...{ cutsMatter: true, window: { maxBytes: 1_000_000, maxChanges: 1_000 }, commitPoint: null },
    rows: new ChangeRows(Number(checkpoint.lastVersion), { sends: () => true }, []),
    ...{ keeper, keyless: new KeylessCopies(keeper, true) },
    outlet: ({ sent, reach }) => ({
      addRow(_, { context }) {
        sent(1, 1);
        versions.push(context.version);
        reach();
      },
      ...{ seal() {}, addBoundary() {}, tookVersion() {} },
      ...{ hasCapacity: true, untilCapacity: async () => {} },
    }),
    ...{ durable() {}, failed() {} },
    ...{ monotonic: () => performance.now(), yieldToIo: async () => {} },
  });
  await windows.take(batch, [table]);
  return versions;
}

test("a change that was not received before is above all that was sent, though fewer come before it now", async () => {
  const timeUs = beginning.lastVersion + 10n;
  const others = Array.from({ length: 50 }, (_, i) => insert(accounts, 100 + i));
  const first = (changes: readonly FixtureChange[]) => transaction(1, [...changes, update(1, "a")], timeUs);
  const second = transaction(2, [update(1, "b")], timeUs + 1n);
  const keeper = new RecordKeeper(
    ...([{ save: async () => {} }, begunRecord(beginning), new SavedTables(noTables)] as const),
    () => performance.now(),
  );
  const sent = await versionsOf(keeper, batches([first(others)])[0]!);
  // The service dies before anything is noted as delivered. By then the table of the others is not selected any more.
  const again = await versionsOf(keeper, batches([first([]), second])[0]!);
  expect(again).toHaveLength(2);
  expect(again[1]).toBeGreaterThan(Math.max(...sent));
});
