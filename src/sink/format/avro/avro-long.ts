// Whole numbers in Avro's encoding of int and long: zigzag, then seven bits a byte, the lowest first. Numbers beyond 2^53 are held in limbs
// of 28 bits, which are four bytes each: no bigint is made for a row.
// https://avro.apache.org/docs/1.12.0/specification/#binary-encoding

import type { ByteWriter } from "../values/byte-writer.ts";
import type { AvroWriter } from "./avro-writer.ts";

const minus = 45;
const limbBits = 28;
const limb = 2 ** limbBits;
const limbMask = limb - 1;
const limbOfBigint = BigInt(limbMask);
/** A number of so many digits fits in one limb together with its sign. */
const digitsOfOneLimb = 8;
/** A number of so many digits is exact as a JavaScript number. */
const exactDigits = 15;

/** A whole number from -2^53 to 2^53. */
export function writeLong(out: ByteWriter, value: number): void {
  const sign = value < 0 ? 1 : 0;
  const rest = sign === 1 ? -value - 1 : value;
  if (rest < limb / 2) {
    writeSmall(out, rest * 2 + sign);
    return;
  }
  const high = Math.floor(rest / limb);
  const low = rest - high * limb;
  writeLimbs(out, ((low << 1) | sign) & limbMask, high * 2 + (low >>> (limbBits - 1)), 0);
}

/** False: it does not fit in 64 bits, and nothing was written. */
export function writeBigLong(out: ByteWriter, value: bigint): boolean {
  if (BigInt.asIntN(64, value) !== value) return false;
  const zigzag = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
  const part = (index: bigint) => Number((zigzag >> (index * BigInt(limbBits))) & limbOfBigint);
  writeLimbs(out, part(0n), part(1n), part(2n));
  return true;
}

/** An integer of up to 64 bits, digit for digit. */
export const writeIntegerText: AvroWriter = (out, source, start, end) => {
  const isNegative = source[start] === minus;
  const begin = isNegative ? start + 1 : start;
  if (end - begin > exactDigits) return writeLongText(out, source, begin, end, isNegative);
  let value = 0;
  for (let i = begin; i < end; i++) value = value * 10 + (source[i]! - 48);
  if (end - begin > digitsOfOneLimb) writeLong(out, isNegative ? -value : value);
  else writeSmall(out, isNegative && value > 0 ? value * 2 - 1 : value * 2);
  return true;
};

function writeLongText(
  out: ByteWriter,
  source: Uint8Array,
  begin: number,
  end: number,
  isNegative: boolean,
): boolean {
  let low = 0;
  let middle = 0;
  let high = 0;
  for (let i = begin; i < end; i++) {
    low = low * 10 + (source[i]! - 48);
    middle = middle * 10 + (low >>> limbBits);
    high = high * 10 + (middle >>> limbBits);
    low &= limbMask;
    middle &= limbMask;
  }
  high = high * 2 + (middle >>> (limbBits - 1));
  middle = ((middle << 1) | (low >>> (limbBits - 1))) & limbMask;
  low = (low << 1) & limbMask;
  if (isNegative) {
    // Less one, which zigzag makes of a sign. The number is not zero: it has more digits than one.
    if (low === 0 && middle === 0) high--;
    if (low === 0) middle = (middle - 1) & limbMask;
    low = (low - 1) & limbMask;
  }
  writeLimbs(out, low, middle, high);
  return true;
}

/** Below 2^31. */
function writeSmall(out: ByteWriter, zigzag: number): void {
  out.reserve(5);
  const { bytes } = out;
  let at = out.length;
  let rest = zigzag;
  while (rest > 127) {
    bytes[at++] = (rest & 127) | 128;
    rest >>>= 7;
  }
  bytes[at++] = rest;
  out.length = at;
}

function writeLimbs(out: ByteWriter, low: number, middle: number, high: number): void {
  if (middle === 0 && high === 0) {
    writeSmall(out, low);
    return;
  }
  writeWholeLimb(out, low);
  if (high === 0) {
    writeSmall(out, middle);
    return;
  }
  writeWholeLimb(out, middle);
  writeSmall(out, high);
}

/** Four bytes that others follow. */
function writeWholeLimb(out: ByteWriter, value: number): void {
  out.reserve(4);
  const { bytes } = out;
  const at = out.length;
  bytes[at] = (value & 127) | 128;
  bytes[at + 1] = ((value >>> 7) & 127) | 128;
  bytes[at + 2] = ((value >>> 14) & 127) | 128;
  bytes[at + 3] = (value >>> 21) | 128;
  out.length = at + 4;
}
