import { describe, expect, test } from "bun:test";
import { interruptionSince } from "../../../../src/source/postgres/publication/publication-membership.ts";

describe("a table's membership compared with the recorded one", () => {
  test.each([
    ["that was not recorded goes on", undefined, "7/700", null],
    ["that is the same goes on", "7/700", "7/700", null],
    ["that is gone", "7/700", undefined, "removed"],
    ["that is another", "7/700", "8/700", "removed"],
    ["of a publication whose row was written", "7/700", "7/701", "altered"],
    ["whose record knows of no such row", "7", "7/700", "altered"],
    ["of a partition that was detached", "7/700@712@730 in 0 20", "7/700@712@731 in 0 20", "detached"],
    [
      "of a partition, of which another member is the root",
      "7/700@712 in 0 20",
      "8/700@712 in 0 20",
      "removed",
    ],
    ["of a partition whose record knows of no link goes on", "7/700 in 0 20", "7/700@712@730 in 0 20", null],
    ["of a partition whose record has the root's, too, goes on", "7/700 8/700", "7/700", null],
    ["of which only the root's is left", "7/700 8/700", "8/700@712", "removed"],
    ["that got another file", "all 7/700 in 0 20", "all 7/700 in 0 21", "rewritten"],
    ["that got another file, and large values", "all 7/700 in 0 20", "all 7/700 in 30 21", "rewritten"],
    ["that got a table for large values", "all 7/700 in 0 20", "all 7/700 in 30 20", null],
    ["that was vacuumed or truncated", "all 7/700 in 30 20", "all 7/700 in 30 21", null],
    ["that ALTER TABLE rewrote", "all 7/700 in 30 20", "all 7/700 in 31 21", "rewritten"],
  ])("%s", (_, recorded, membership, interruption) => {
    expect(interruptionSince(recorded, membership)).toBe(
      interruption as ReturnType<typeof interruptionSince>,
    );
  });
});
