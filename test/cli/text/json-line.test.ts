// Finds the line of a mistake in JSON.

import { expect, test } from "bun:test";
import { lineOfMistake } from "../../../src/cli/text/json-line.ts";

test.each([
  [1, ""],
  [1, "id: a"],
  [1, '{"a": 01,\n"b": }'],
  [1, '{"a": "\n"}'],
  [2, '{\n"a": planted\n}'],
  [2, "{\n'a': 1\n}"],
  [2, '{\n"a": "\\x"\n}'],
  [2, '{"a":\n,\n"b": 1}'],
  [2, '{"a"\n1}'],
  [2, '{"a": 1}\n{"a": 1}'],
  [2, '{"a": [\n}, "b": 1}'],
  [3, '{"a": 1,\r\n"b": 2,\r\n}'],
  [3, "[\n1\n2\n,3]"],
  [3, '{"a": "}]\\"{",\n"b":\n"\\q"}'],
  [3, '{\n"a": [\n1\n\n'],
])("line %i of %j", (line, text) => {
  expect(() => JSON.parse(text)).toThrow();
  expect(lineOfMistake(text)).toBe(line);
});

test("a word in place of any line of a file is found in its line", () => {
  const pages = Array.from({ length: 20 }, (_, i) => ({
    id: `a${i}`,
    list: [{}, [], [1, '\\"{'], null],
    on: true,
  }));
  const lines = JSON.stringify({ connectors: pages }, null, 2).split("\n");
  for (const at of lines.keys()) {
    expect(lineOfMistake(lines.with(at, "planted").join("\n"))).toBe(at + 1);
  }
});
