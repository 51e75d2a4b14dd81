// When a table that could not be read is tried again.

import { expect, test } from "bun:test";
import type { TableShape } from "../../src/change/relation.ts";
import type { ErrorCode } from "../../src/errors/error-codes.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { UnreadableTables } from "../../src/pipeline/unreadable-tables.ts";
import { MemorySource } from "../support/pipeline/memory-source.ts";

/** How long it waits after each of ten failures, in milliseconds. */
function waitsAfter(table: TableShape, code: ErrorCode): readonly number[] {
  let nowMs = 0;
  using tables = new UnreadableTables(undefined, () => nowMs);
  return Array.from({ length: 10 }, () => {
    tables.failed(table, new MillraceError(code, "It may not be read."));
    const failedMs = nowMs;
    while (tables.due().length === 0) nowMs += 250;
    return nowMs - failedMs;
  });
}

test("an altered table waits for two seconds at most: one that is truncated all the time is to have its turn", () => {
  const table = new MemorySource().add("t", [], [0]);
  expect(waitsAfter(table, "table_changed")).toEqual([250, 500, 1_000, ...Array<number>(7).fill(2_000)]);
  expect(waitsAfter(table, "source_permission_denied").slice(0, 6)).toEqual([
    5_000, 10_000, 20_000, 40_000, 60_000, 60_000,
  ]);
});
