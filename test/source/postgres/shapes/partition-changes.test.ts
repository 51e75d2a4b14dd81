import { expect, test } from "bun:test";
import { silentChange } from "../../../../src/source/postgres/shapes/column-changes.ts";
import {
  attachedPartitions,
  hasLostRows,
  type Partition,
  remedyForRows,
  rememberPartitions,
  unfitPartition,
} from "../../../../src/source/postgres/shapes/partition-changes.ts";
import { usedMs } from "../../../support/processor-time.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";

const partition = (id: number, change: Partial<Partition> = {}): Partition => ({
  id,
  parent: 9,
  schema: "public",
  name: `p${id}`,
  notLogged: null,
  files: `f${id}`,
  link: `l${id}`,
  isCreatedAsPartition: false,
  sendsWholeRows: false,
  identity: ["id"],
  ...change,
});
const remembered = rememberPartitions([partition(1), partition(2), partition(3, { files: "" })], "");
const same = [partition(1), partition(2), partition(3, { files: "" })];

test("rows are lost with a partition that is gone, was detached, or has new files", () => {
  const isLost = (partitions: readonly Partition[]) => hasLostRows(remembered, partitions);
  expect(isLost([...same, partition(4)])).toBe(false);
  expect(isLost(same.slice(1))).toBe(true);
  expect(isLost([partition(1), partition(2, { files: "f9" }), ...same.slice(2)])).toBe(true);
  // All of them may have been deleted meanwhile.
  expect(isLost([partition(1), partition(2, { link: "l9" }), ...same.slice(2)])).toBe(true);
});

test("rows may arrive with a table that was attached since, or below one, and not with one that was created as a partition", () => {
  const names = (partitions: readonly Partition[]) =>
    attachedPartitions(remembered, partitions).map(({ partition: { id }, links }) => [id, ...links]);
  expect(names(same)).toEqual([]);
  expect(
    names([partition(1, { link: "l9" }), partition(4), partition(5, { isCreatedAsPartition: true })]),
  ).toEqual([
    [1, "l9"],
    [4, "l4"],
  ]);
  const below = (parent: Partial<Partition>) =>
    names([
      partition(3, { files: "", ...parent }),
      partition(6, { parent: 3 }),
      partition(7, { parent: 3, isCreatedAsPartition: true }),
    ]);
  expect(below({})).toEqual([[6, "l6"]]);
  expect(below({ link: "l9" })).toEqual([
    [6, "l9", "l6"],
    [7, "l9"],
  ]);
  expect(names([partition(8, { notLogged: "foreign" })])).toEqual([]);
});

test("rows that certainly arrived are copied; possible ones only if the table is small", () => {
  expect(remedyForRows("no", false, false)).toBeNull();
  expect(remedyForRows("yes", false, false)).toBe("copy");
  expect([remedyForRows("perhaps", false, true), remedyForRows("no", true, true)]).toEqual(["copy", "copy"]);
  expect([remedyForRows("perhaps", false, false), remedyForRows("no", true, false)]).toEqual([
    "warn",
    "warn",
  ]);
});

test("a partition is fit if the old row that it sends contains the root's key", () => {
  const root = relation("p", [
    ["id", 23, "integer"],
    ["at", 1082, "date"],
  ]);
  const unfit = (identity: readonly string[] | null, sendsWholeRows = false, of = root) =>
    unfitPartition(of, [partition(1, { identity, sendsWholeRows })])?.id ?? null;
  expect(unfit(["id"])).toBeNull();
  expect(unfit(["at", "id"])).toBeNull();
  expect(unfit(null, true)).toBeNull();
  expect(unfit(["at"])).toBe(1);
  expect(unfitPartition(root, [partition(1, { files: "", identity: null })])).toBeNull();
  expect(unfit(null)).toBe(1);
  // Without a key, rows are identified by all columns.
  const whole = { ...root, replicaIdentity: "full", key: [] } as const;
  expect(unfit(["id"], false, whole)).toBe(1);
  expect(unfit(null, true, whole)).toBeNull();
  // Only inserts are carried anyway.
  expect(unfit(null, false, { ...root, replicaIdentity: "nothing" })).toBeNull();
});

test("a rewrite of one of ten thousand partitions is found in a moment, and a new partition is none", () => {
  const files = Array.from({ length: 10_000 }, (_, i) => String(1_000_000 + i));
  const column = (version: string) => ({
    number: 1,
    name: "v",
    version,
    hasAddedValue: false,
    formerNames: [],
    seenAt: null,
  });
  const before = { columns: [column("1")], storage: files.join(" ") };
  const after = (storage: readonly string[]) => ({ columns: [column("2")], storage: storage.join(" ") });
  const began = usedMs();
  expect(silentChange(before, after([...files, "7"]), true)).toBeNull();
  expect(silentChange(before, after(files.with(-1, "7")), true)?.reason).toBe("column v was rewritten");
  expect(usedMs() - began).toBeLessThan(300);
});
