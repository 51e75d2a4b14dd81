// The codes that people look up: docs/errors.md tells what to do about each one of the source's.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorKinds } from "../../src/errors/error-codes.ts";

const root = join(import.meta.dir, "..", "..");

test("the table in the docs and the table of codes agree on what can be wrong at the source", () => {
  const source = readFileSync(join(root, "src", "errors", "error-codes.ts"), "utf8");
  const section = source.slice(source.indexOf("--- the source"), source.indexOf("--- the sink"));
  const codes = [...section.matchAll(/^ {2}(\w+): kind/gm)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(15);
  const rows = readFileSync(join(root, "docs", "errors.md"), "utf8").matchAll(/^\| (`[^|]+) \|/gm);
  const told = [...rows].flatMap(([, cell = ""]) => [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code));
  expect(told.filter((code) => !(code! in errorKinds))).toEqual([]);
  expect(codes.filter((code) => !told.includes(code!))).toEqual([]);
});
