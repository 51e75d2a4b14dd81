// Reads connectors from a file: environment variables, and the errors for invalid files.

import { expect, test } from "bun:test";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseConnectors, readConnectors } from "../../src/cli/connector-file.ts";
import { parseTableName } from "../../src/cli/text/table-name.ts";
import { plainLines, textTable } from "../../src/cli/text/text-table.ts";

/** The syntax for a variable's value. */
const of = (name: string) => `$\{${name}}`;
const environment = { DB_PASSWORD: `a"b\\c ${of("DB_HOST")}`, DB_HOST: "db1", EMPTY: "" };
const parse = (value: unknown) => parseConnectors(JSON.stringify(value), "c.json", environment);

test("one connector or several, with variables in strings anywhere", () => {
  const connection = { host: of("DB_HOST"), password: of("DB_PASSWORD") };
  expect(parse({ id: "a", source: { postgres: { connection } } })).toEqual([
    {
      id: "a",
      body: {
        id: "a",
        source: { postgres: { connection: { host: "db1", password: environment.DB_PASSWORD } } },
      },
    },
  ]);
  const values = [`$${of("DB_HOST")}`, `x${of("EMPTY")}y`, 5, null];
  expect(parse({ connectors: [{ id: "a", values }, { id: of("DB_HOST") }] })).toEqual([
    { id: "a", body: { id: "a", values: [of("DB_HOST"), "xy", 5, null] } },
    { id: "db1", body: { id: "db1" } },
  ]);
});

test("errors name the cause, without the value of a variable", () => {
  const name = [of("NOT_SET"), of("DB_PASSWORD"), of("NEITHER")].join(" ");
  expect(() => parse({ id: "a", name })).toThrow(
    "c.json names variables that are not set: NOT_SET, NEITHER.",
  );
  expect(() => parse({ connectors: [{ id: "a" }, { name: "b" }] })).toThrow(
    'c.json: connector 2 has no "id"',
  );
  for (const shape of [[], [{ id: "a" }], "a", { connectors: { a: {} } }])
    expect(() => parse(shape)).toThrow('c.json must be one connector, or {"connectors": [ … ]}');
  expect(() => parse({ connectors: [{ id: "a-b" }, { id: "c" }, { id: "A_B" }] })).toThrow(
    'the ids "a-b" and "A_B" lead to the same slot name, millrace_a_b',
  );
  expect(() => parse({ connectors: [{ id: "a" }, { id: "a" }] })).toThrow('two connectors have the id "a"');
  expect(() => parse({ connectors: [{ id: "a" }], connector: {} })).toThrow('beside "connectors"');
  expect(() => parseConnectors("[".repeat(100_000) + "]".repeat(100_000), "c.json", {})).toThrow("too deep");
  expect(() => parseConnectors("[\n".repeat(100_000), "c.json", {})).toThrow("too deep");
  expect(() => parseConnectors('{"id": "a",\n}', "c.json", {})).toThrow(
    /^c.json is no JSON: .*, in line 2\.$/,
  );
  expect(() => parseConnectors('{"id": planted}', "c.json", {})).toThrow(/^c.json is no JSON: (?!.*planted)/);
  expect(() => parseConnectors('{"id": "a", "sink": {"x": 1, "x": 2}}', "c.json", {})).toThrow(
    "c.json has keys that are there twice: /sink/x.",
  );
});

test("table names are accepted as people write them", () => {
  expect(parseTableName("orders")).toEqual({ schema: "public", name: "orders" });
  expect(parseTableName("shop.Orders")).toEqual({ schema: "shop", name: "Orders" });
  expect(parseTableName('"My ""Shop"""."a.b"')).toEqual({ schema: 'My "Shop"', name: "a.b" });
  for (const wrong of ["", "a.b.c", '"a', "a.", ".b"])
    expect(() => parseTableName(wrong)).toThrow("is no table");
});

test("the file must be UTF-8", async () => {
  const path = join(tmpdir(), `millrace-file-${process.pid}.json`);
  await using _file = { [Symbol.asyncDispose]: () => rm(path, { force: true }) };
  await writeFile(path, Buffer.from('{"id": "a", "name": "\xff\xfe"}', "latin1"));
  expect(readConnectors(path, {})).rejects.toThrow("is not UTF-8");
  await writeFile(path, '{"id": "a", "name": "ü"}');
  expect(await readConnectors(path, {})).toEqual([{ id: "a", body: { id: "a", name: "ü" } }]);
  expect(readConnectors(tmpdir(), {})).rejects.toThrow("cannot be read");
  expect(readConnectors(`${path}.not`, {})).rejects.toThrow("cannot be read");
});

test("a file without an end is not read for ever", async () => {
  expect(readConnectors("/dev/zero", {})).rejects.toThrow("it has more than 16 MB");
});

test("names from elsewhere cannot control the terminal, and wide characters count as two columns", () => {
  const rows = [["\u001b[31mred\u009b0m", "two\nlines"]];
  expect(textTable(["NAME", "REASON"], rows)).toBe("NAME         REASON\n [31mred 0m  two lines");
  expect(textTable(["A", "B"], [["表", "表表表表表表表"]], 14)).toBe("A   B\n表  表表表表…");
  expect(plainLines("a\u0007b\nc\rd")).toBe("a b\nc d");
});

test("a table is as wide as its content, and not wider than the terminal", () => {
  const rows = [
    ["a", "1", "a long reason"],
    ["bcd", "22", ""],
  ];
  expect(textTable(["ID", "N", "REASON"], rows)).toBe("ID   N   REASON\na    1   a long reason\nbcd  22");
  expect(textTable(["ID", "N", "REASON"], rows, 20)).toBe("ID   N   REASON\na    1   a long rea…\nbcd  22");
});
