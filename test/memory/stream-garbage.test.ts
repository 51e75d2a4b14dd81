// The garbage of a stream is collected at measured distances, which grow with what stays.

import { expect, test } from "bun:test";
import { ownCollector, StreamGarbage } from "../../src/memory/stream-garbage.ts";

const megabyte = 1024 * 1024;

function collections(
  releases: readonly number[],
  heapBytes: () => number,
  residentBytes = () => 200 * megabyte,
  leftAloneBytes = 0,
): readonly string[] {
  const log: string[] = [];
  const young = () => void log.push("young");
  const collector = { young, all: () => void log.push("all"), heapBytes, residentBytes };
  const garbage = new StreamGarbage(leftAloneBytes, collector);
  for (const bytes of releases) garbage.released(bytes);
  return log;
}

const byMegabytes = (count: number) => Array.from({ length: count }, () => megabyte);

test("in a small heap all is collected each time", () => {
  expect(collections(byMegabytes(18), () => 12 * megabyte)).toEqual(["all", "all", "all"]);
});

test("beside a large heap all is collected less often, and what is young between", () => {
  const log = collections(byMegabytes(108), () => 200 * megabyte);
  expect(log.filter((each) => each === "all")).toHaveLength(2);
  expect(log.indexOf("all")).toBe(0);
  expect(log.filter((each) => each === "young")).toHaveLength(33);
});

test("one large release is one collection", () => {
  expect(collections([64 * megabyte], () => 0)).toEqual(["all"]);
});

test("a process that is to be left alone while it is small is collected in as soon as it is not", () => {
  let looks = 0;
  const grows = () => (++looks <= 3 ? 150 : 151) * megabyte;
  expect(collections(byMegabytes(30), () => 12 * megabyte, grows, 150 * megabyte)).toEqual(["all", "all"]);
});

test("beside a large heap in a process that is small again, what is young is left alone as well", () => {
  let looks = 0;
  const shrinks = () => (++looks === 1 ? 200 : 100) * megabyte;
  expect(collections(byMegabytes(108), () => 200 * megabyte, shrinks, 150 * megabyte)).toEqual(["all"]);
});

test.each([
  ["young", 20 * megabyte, 4 * megabyte],
  ["all", 0, 8 * megabyte],
])("garbage of this thread is gone as soon as enough of it is told of (%s)", async (_what, heap, bytes) => {
  const garbage = new StreamGarbage(0, { ...ownCollector, heapBytes: () => heap });
  // From now on it knows how large the heap is.
  garbage.released(8 * megabyte);
  const made = Array.from({ length: 1000 }, (_, at) => new WeakRef({ at }));
  // A reference that was made in this turn keeps its object until the turn ends.
  await Bun.sleep(1);
  garbage.released(bytes);
  expect(made.filter((each) => each.deref() !== undefined).length).toBeLessThan(100);
});
