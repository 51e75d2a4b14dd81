import { expect, test } from "bun:test";
import { nextTryMs } from "../../../src/pipeline/verify/prove-tables.ts";

test("a table is compared again after a second, at most after a minute, and never before as long as it took", () => {
  expect([0, 1, 2, 5, 6, 100].map((failures) => nextTryMs(failures, 10))).toEqual([
    1_000, 2_000, 4_000, 32_000, 60_000, 60_000,
  ]);
  expect([0, 6].map((failures) => nextTryMs(failures, 3_600_000))).toEqual([3_600_000, 3_600_000]);
});
