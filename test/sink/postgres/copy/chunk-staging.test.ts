import { expect, test } from "bun:test";
import { writtenOf } from "../../../../src/sink/postgres/copy/chunk-staging.ts";

test("as many rows of a chunk are written as its pages say, and all of one that stages none", () => {
  expect([0, 2, 4].map((next) => writtenOf({ rows: 1_001, pages: 4, next }))).toEqual([0, 500, 1_001]);
  expect(writtenOf({ rows: 10, pages: 0, next: 0 })).toBe(10);
});
