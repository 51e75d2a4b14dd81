// Numerics of up to twenty digits as the bytes of their unscaled value, without a bigint or a string for each. Longer ones are
// debezium-value.ts's.

import type { ByteWriter } from "./byte-writer.ts";

const minus = 45;
const point = 46;
const quote = 34;
const equals = 61;
const base64Digits = new TextEncoder().encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
);
/** 10^20 is less than 2^71: with its sign it has room in nine bytes. */
const mostDigits = 20;
const bytesOfAll = 9;
const limb = 2 ** 24;

/** What was read last: two's complement, big-endian, `bytes[from, 9)`, as few as hold it. One is used again for each value. */
export class ShortDecimal {
  readonly bytes = new Uint8Array(bytesOfAll);
  from = 0;
  /** Digits behind the point. */
  scale = 0;

  /** Reads `source[start, end)`, with zeros behind it up to `leastScale`. False: it is too long, or none: nothing was read. */
  read(source: Uint8Array, start: number, end: number, leastScale = 0): boolean {
    const isNegative = source[start] === minus;
    let high = 0;
    let middle = 0;
    let low = 0;
    let digits = 0;
    let pointAt = -1;
    const begin = isNegative ? start + 1 : start;
    const zerosEnd = leastScale === 0 ? end : end + Math.max(0, leastScale - scaleOf(source, begin, end));
    for (let i = begin; i < zerosEnd; i++) {
      if (i < end && source[i] === point && pointAt < 0) {
        pointAt = i;
        continue;
      }
      const digit = i < end ? source[i]! - 48 : 0;
      if (digit < 0 || digit > 9 || ++digits > mostDigits) return false;
      low = low * 10 + digit;
      middle = middle * 10 + (low >>> 24);
      high = high * 10 + (middle >>> 24);
      low &= limb - 1;
      middle &= limb - 1;
    }
    if (digits === 0) return false;
    this.scale = pointAt < 0 ? zerosEnd - end : zerosEnd - pointAt - 1;
    this.#place(high, middle, low, isNegative);
    return true;
  }

  /** Writes the bytes as base64 in quotes. */
  write(out: ByteWriter): void {
    out.reserve(14);
    const { bytes } = this;
    const to = out.bytes;
    let at = out.length;
    to[at++] = quote;
    for (let i = this.from; i < bytesOfAll; i += 3) {
      const left = bytesOfAll - i;
      const group = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
      to[at++] = base64Digits[group >> 18]!;
      to[at++] = base64Digits[(group >> 12) & 63]!;
      to[at++] = left > 1 ? base64Digits[(group >> 6) & 63]! : equals;
      to[at++] = left > 2 ? base64Digits[group & 63]! : equals;
    }
    to[at++] = quote;
    out.length = at;
  }

  #place(high: number, middle: number, low: number, isNegative: boolean): void {
    const { bytes } = this;
    let h = high;
    let m = middle;
    let l = low;
    if (isNegative && (h | m | l) !== 0) {
      l = limb - l;
      m = limb - 1 - m + (l === limb ? 1 : 0);
      h = limb - 1 - h + (m === limb ? 1 : 0);
    }
    put(bytes, 0, h);
    put(bytes, 3, m);
    put(bytes, 6, l);
    const sign = bytes[0]! & 0x80 ? 0xff : 0;
    let from = 0;
    // The first bit of what is left says the sign.
    while (from < bytesOfAll - 1 && bytes[from] === sign && ((bytes[from + 1]! ^ sign) & 0x80) === 0) from++;
    this.from = from;
  }
}

function put(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = (value >> 16) & 255;
  bytes[at + 1] = (value >> 8) & 255;
  bytes[at + 2] = value & 255;
}

/** Digits behind the point. */
function scaleOf(source: Uint8Array, start: number, end: number): number {
  for (let i = end - 1; i >= start; i--) if (source[i] === point) return end - i - 1;
  return 0;
}
