// The garbage of a stream is collected at measured distances, which grow with what stays.

import { expect, test } from "bun:test";
import { StreamGarbage } from "../../src/change/stream-garbage.ts";

const megabyte = 1024 * 1024;

function collections(releases: readonly number[], heapBytes: () => number): readonly string[] {
  const log: string[] = [];
  const collector = { young: () => void log.push("young"), all: () => void log.push("all"), heapBytes };
  const garbage = new StreamGarbage(collector);
  for (const bytes of releases) garbage.released(bytes);
  return log;
}

const byMegabytes = (count: number) => Array.from({ length: count }, () => megabyte);

test("what is young is collected between collections of all", () => {
  const log = collections(byMegabytes(16), () => 10 * megabyte);
  expect(log).toEqual(["young", "young", "young", "all", "young", "young", "young", "all"]);
});

test("beside a large heap all is collected less often", () => {
  const log = collections(byMegabytes(108), () => 200 * megabyte);
  expect(log.filter((each) => each === "all")).toHaveLength(2);
  expect(log.indexOf("all")).toBe(3);
});

test("one large release is one collection", () => {
  expect(collections([64 * megabyte], () => 0)).toEqual(["all"]);
});

test("garbage goes as it is told of: the heap of this thread does not grow with the stream", () => {
  const garbage = new StreamGarbage();
  const heldBytes: number[] = [];
  for (let i = 0; i < 2000; i++) {
    const made = Array.from({ length: 64 }, (_, at) => new Uint8Array(1000 + at));
    garbage.released(made.length * 1000);
    if (i % 100 === 99) heldBytes.push(process.memoryUsage().arrayBuffers);
  }
  const [first = 0] = heldBytes;
  expect(Math.max(...heldBytes)).toBeLessThan(first + 24 * megabyte);
});
