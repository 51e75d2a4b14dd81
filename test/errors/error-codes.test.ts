// docs/errors.md, in which users look up codes, must describe each code of the source.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorKinds } from "../../src/errors/error-codes.ts";

const root = join(import.meta.dir, "..", "..");

test("the table in the docs and the table of codes agree on the source's errors", () => {
  const source = readFileSync(join(root, "src", "errors", "error-codes.ts"), "utf8");
  const section = source.slice(source.indexOf("--- the source"), source.indexOf("--- the sink"));
  const codes = [...section.matchAll(/^ {2}(\w+): kind/gm)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(15);
  const rows = readFileSync(join(root, "docs", "errors.md"), "utf8").matchAll(/^\| (`[^|]+) \|/gm);
  const documented = [...rows].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code),
  );
  expect(documented.filter((code) => !(code! in errorKinds))).toEqual([]);
  expect(codes.filter((code) => !documented.includes(code!))).toEqual([]);
});
