import { expect, test } from "bun:test";
import {
  hasLostRows,
  newcomers,
  notePartitions,
  type Partition,
  remedyForRows,
  unfitPartition,
} from "../../../../src/source/postgres/shapes/partition-changes.ts";
import { relation } from "../../../support/batch-fixture.ts";

const partition = (id: number, change: Partial<Partition> = {}): Partition => ({
  id,
  parent: 9,
  schema: "public",
  name: `p${id}`,
  notLogged: null,
  files: `f${id}`,
  link: `l${id}`,
  isBorn: false,
  sendsWholeRows: false,
  identity: ["id"],
  ...change,
});
const noted = notePartitions([partition(1), partition(2), partition(3, { files: "" })], "");
const same = [partition(1), partition(2), partition(3, { files: "" })];

test("rows are lost with a partition that is gone, that was away, or whose files are others", () => {
  const isLost = (partitions: readonly Partition[]) => hasLostRows(noted, partitions);
  expect(isLost([...same, partition(4)])).toBe(false);
  expect(isLost(same.slice(1))).toBe(true);
  expect(isLost([partition(1), partition(2, { files: "f9" }), ...same.slice(2)])).toBe(true);
  // All of them may have been deleted meanwhile.
  expect(isLost([partition(1), partition(2, { link: "l9" }), ...same.slice(2)])).toBe(true);
});

test("rows may come with what was attached since, by itself or with what is above it, and not with what was made as a partition", () => {
  const names = (partitions: readonly Partition[]) =>
    newcomers(noted, partitions).map(({ partition: { id }, links }) => [id, ...links]);
  expect(names(same)).toEqual([]);
  expect(names([partition(1, { link: "l9" }), partition(4), partition(5, { isBorn: true })])).toEqual([
    [1, "l9"],
    [4, "l4"],
  ]);
  const below = (parent: Partial<Partition>) =>
    names([
      partition(3, { files: "", ...parent }),
      partition(6, { parent: 3 }),
      partition(7, { parent: 3, isBorn: true }),
    ]);
  expect(below({})).toEqual([[6, "l6"]]);
  expect(below({ link: "l9" })).toEqual([
    [6, "l9", "l6"],
    [7, "l9"],
  ]);
  expect(names([partition(8, { notLogged: "foreign" })])).toEqual([]);
});

test("rows that certainly came are copied, those that may have come or gone as far as the table is small", () => {
  expect(remedyForRows("no", false, false)).toBeNull();
  expect(remedyForRows("yes", false, false)).toBe("copy");
  expect([remedyForRows("perhaps", false, true), remedyForRows("no", true, true)]).toEqual(["copy", "copy"]);
  expect([remedyForRows("perhaps", false, false), remedyForRows("no", true, false)]).toEqual([
    "warn",
    "warn",
  ]);
});

test("a partition is fit when what it sends of the old row holds the root's key", () => {
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
  // Without a key rows are found as a whole.
  const whole = { ...root, replicaIdentity: "full", key: [] } as const;
  expect(unfit(["id"], false, whole)).toBe(1);
  expect(unfit(null, true, whole)).toBeNull();
  // Only its inserts are carried anyway.
  expect(unfit(null, false, { ...root, replicaIdentity: "nothing" })).toBeNull();
});
