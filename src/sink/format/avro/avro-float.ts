// Floats and doubles of Postgres' text form, as IEEE 754. A short decimal number is read without a string.

import type { ByteWriter } from "../values/byte-writer.ts";
import type { AvroWriter } from "./avro-writer.ts";

const minus = 45;
const point = 46;
/** Up to here the digits and the power of ten are exact doubles, so that one division rounds as it should (W. D. Clinger, 1990). */
const exactDigits = 15;
const decoder = new TextDecoder();
const powers = Float64Array.from({ length: exactDigits + 1 }, (_, power) => 10 ** power);
const scratch = new DataView(new ArrayBuffer(8));
const scratchBytes = new Uint8Array(scratch.buffer);

export const writeDouble: AvroWriter = (out, source, start, end) =>
  putDouble(out, parseFloating(source, start, end));

export const writeFloat: AvroWriter = (out, source, start, end) => {
  scratch.setFloat32(0, parseFloating(source, start, end), true);
  out.raw(scratchBytes, 0, 4);
  return true;
};

export function putDouble(out: ByteWriter, value: number): true {
  scratch.setFloat64(0, value, true);
  out.raw(scratchBytes, 0, 8);
  return true;
}

/** The double next to the number; `NaN`, `Infinity` and `-Infinity` are what they say. */
function parseFloating(source: Uint8Array, start: number, end: number): number {
  const isNegative = source[start] === minus;
  const begin = isNegative ? start + 1 : start;
  if (end - begin > exactDigits + 1) return Number(decoder.decode(source.subarray(start, end)));
  let value = 0;
  let digits = 0;
  let pointAt = -1;
  for (let i = begin; i < end; i++) {
    const digit = source[i]! - 48;
    if (digit >= 0 && digit <= 9) {
      value = value * 10 + digit;
      digits++;
    } else if (source[i] === point && pointAt < 0) pointAt = i;
    else return Number(decoder.decode(source.subarray(start, end)));
  }
  if (digits > exactDigits) return Number(decoder.decode(source.subarray(start, end)));
  const read = pointAt < 0 ? value : value / powers[end - pointAt - 1]!;
  return isNegative ? -read : read;
}
