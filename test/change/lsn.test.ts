import { expect, test } from "bun:test";
import fc from "fast-check";
import { formatLsn, lsn, parseLsn } from "../../src/change/lsn.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";

test("an LSN in Postgres' notation is parsed and formatted", () => {
  expect(parseLsn("16/B374D848")).toBe(lsn(0x16b374d848n));
  expect(formatLsn(lsn(0x16b374d848n))).toBe("16/B374D848");
  expect(formatLsn(lsn(0n))).toBe("0/0");
});

test("any LSN survives formatting and parsing", () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 2n ** 64n - 1n), (value) => {
      expect(parseLsn(formatLsn(lsn(value)))).toBe(lsn(value));
    }),
  );
});

test.each(["", "16", "/1", "1/", "g/1", "123456789/1", "1/1 "])("%p is refused", (text) => {
  expect(() => parseLsn(text)).toThrow(MillraceError);
});
