// Any number and any moment in Debezium's forms, as exact as it was.

import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  decimalWriter,
  timestampWriter,
  twosComplement,
  writeVariableScaleDecimal,
} from "../../../../src/sink/format/debezium/debezium-value.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import type { ValueWriter } from "../../../../src/sink/format/values/value-writer.ts";

/** What is written of a value that stands amid others. */
function written(write: ValueWriter, text: string): unknown {
  const source = new TextEncoder().encode(`9${text}9`);
  const out = new ByteWriter(1);
  write(out, source, 1, source.length - 1);
  return JSON.parse(Buffer.from(out.slice()).toString());
}

/** As few bytes as hold the value and its sign, as Java's BigInteger.toByteArray. */
function unscaled(bytes: Uint8Array): bigint {
  const [first = 0, second = 0] = bytes;
  const isMore = bytes.length > 1 && (first === 0 ? second < 0x80 : first === 0xff && second >= 0x80);
  expect(isMore).toBe(false);
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString("hex")}`));
}

const numbers = fc
  .tuple(fc.boolean(), fc.stringMatching(/^(0|[1-9][0-9]{0,29})([.][0-9]{1,25})?$/))
  .map(([isNegative, text]) => (isNegative ? `-${text}` : text));

test("any numeric is its unscaled value and its scale", () => {
  fc.assert(
    fc.property(numbers, (text) => {
      const whole = BigInt(text.replace(".", ""));
      const scale = text.split(".")[1]?.length ?? 0;
      const free = written(writeVariableScaleDecimal, text) as { scale: number; value: string };
      expect([free.scale, unscaled(Buffer.from(free.value, "base64"))]).toEqual([scale, whole]);
      const fixed = written(decimalWriter(25), text) as string;
      expect(unscaled(Buffer.from(fixed, "base64"))).toBe(whole * 10n ** BigInt(25 - scale));
    }),
    { numRuns: 1000 },
  );
});

test("words that are no numbers stay what they are", () => {
  for (const word of ["NaN", "Infinity", "-Infinity"]) {
    expect(written(writeVariableScaleDecimal, word)).toBe(word);
    expect(written(decimalWriter(2), word)).toBe(word);
  }
});

test("a number of any size is as few bytes as hold it", () => {
  fc.assert(fc.property(fc.bigInt(), (value) => expect(unscaled(twosComplement(value))).toBe(value)));
  for (const value of [0n, -1n, 127n, 128n, -128n, -129n, 2n ** 63n, -(2n ** 71n), 2n ** 71n])
    expect(unscaled(twosComplement(value))).toBe(value);
});

test("any timestamp is a whole number", () => {
  const moment = fc.date({ min: new Date("1600-01-01"), max: new Date("2300-01-01"), noInvalidDate: true });
  fc.assert(
    fc.property(moment, fc.nat(999), (date, us) => {
      const text = `${date.toISOString().replace("T", " ").replace("Z", "")}${String(us).padStart(3, "0")}`;
      const exact = BigInt(date.getTime()) * 1000n + BigInt(us);
      expect(written(timestampWriter(1n), text)).toBe(Number(exact));
      expect(written(timestampWriter(1000n), text)).toBe(date.getTime());
      expect(written(timestampWriter(1n, "000"), text)).toBe(Number(exact * 1000n));
    }),
    { numRuns: 500 },
  );
});
