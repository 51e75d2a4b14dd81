// docs/errors.md, in which users look up codes, must describe each code that they can meet.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ErrorCode, errorKinds, isOfSink } from "../../src/errors/error-codes.ts";

const root = join(import.meta.dir, "..", "..");
const source = readFileSync(join(root, "src", "errors", "error-codes.ts"), "utf8");

/** The codes between two headings of the table. */
function section(from: string, to: string): readonly ErrorCode[] {
  const text = source.slice(source.indexOf(`--- ${from}`), source.indexOf(`--- ${to}`));
  const codes = [...text.matchAll(/^ {2}(\w+): kind/gm)].map(([, code]) => code as ErrorCode);
  expect(codes.length).toBeGreaterThan(15);
  return codes;
}

test("the table in the docs and the table of codes agree", () => {
  const rows = readFileSync(join(root, "docs", "errors.md"), "utf8").matchAll(
    /^\| (?:\d[^|]* \| )?(`[^|]+) \|/gm,
  );
  const documented = [...rows].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code),
  );
  expect(documented.filter((code) => !(code! in errorKinds))).toEqual([]);
  // What a run tells itself.
  const inner = ["stream_form_changed", "transaction_given_up"];
  expect(
    Object.keys(errorKinds).filter((code) => !documented.includes(code) && !inner.includes(code)),
  ).toEqual([]);
});

test("a failure is told to be the sink's where its code is among the sink's", () => {
  expect(section("the sink", "the service").filter((code) => !isOfSink(code))).toEqual([]);
  expect(section("the source", "the sink").filter(isOfSink)).toEqual([]);
});
