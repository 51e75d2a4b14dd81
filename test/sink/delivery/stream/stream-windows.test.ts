import { expect, test } from "bun:test";
import { KeylessCopies } from "../../../../src/sink/delivery/copy/keyless-copies.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { begunRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import { StreamWindows } from "../../../../src/sink/delivery/stream/stream-windows.ts";
import { accounts, beginning } from "../../../support/contract/history.ts";
import { batches, transaction } from "../../../support/rows/batch-fixture.ts";

/** Windows whose outlet takes so many rows, and then fails. */
function windowsTaking(most: number): StreamWindows {
  const monotonic = () => performance.now();
  const record = begunRecord(beginning);
  const keeper = new RecordKeeper({ save: async () => {} }, record, new SavedTables(noTables), monotonic);
  let rows = 0;
  return new StreamWindows({
    cutsMatter: false,
    window: { maxBytes: () => 1_000_000, maxChanges: 1_000 },
    commitPoint: null,
    rows: new ChangeRows(Number(beginning.lastVersion), { sends: () => true }, []),
    keeper,
    keyless: new KeylessCopies(keeper, true),
    outlet: ({ sent }) => ({
      addRow() {
        if (rows++ === most) throw new Error("it fails");
        sent(1, 1)();
      },
      seal() {},
      addBoundary() {},
      tookVersion() {},
      hasCapacity: true,
      untilCapacity: async () => {},
    }),
    durable() {},
    failed() {},
    monotonic,
    yieldToIo: async () => {},
  });
}

const table = { name: "public.accounts", relation: accounts.relation, order: "byKey" } as never;
const [moved] = batches([
  transaction(1, [
    {
      kind: "update",
      relation: accounts.relation,
      before: ["1", null],
      oldIsKey: true,
      after: ["2", "new"],
    },
  ]),
]);

test.each([0, 1])("a change of a key is not settled when %i of its two rows are added", async (most) => {
  const windows = windowsTaking(most);
  await expect(windows.take(moved!, [table])).rejects.toThrow("it fails");
  expect(() => windows.settle()).toThrow("it fails");
});

test("a change of a key is settled when both of its rows are added", async () => {
  const windows = windowsTaking(2);
  await windows.take(moved!, [table]);
  windows.settle();
  expect(windows.resumeLsn).toBe(moved!.resumeLsn);
});
