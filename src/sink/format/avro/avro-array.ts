// Writes an array of Postgres' text form as an Avro array of its elements, each of which may be null. Bounds (`[2:4]={…}`) are left out.
// https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO

import { unescapedElement } from "../values/array-text.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import { type AvroWriter, isNull, isValue } from "./avro-writer.ts";

const quote = 34;
const backslash = 92;
const open = 123;
const close = 125;
/** Of items in a block: their count takes one byte, which is filled in when it is known. */
const mostInBlock = 63;

/**
 * A column's type does not tell how many dimensions a value has, and a schema has to: an array of several dimensions cannot be held. An
 * element that cannot be held is null.
 */
export function avroArrayWriter(element: AvroWriter, delimiter: string): AvroWriter {
  const separator = delimiter.charCodeAt(0);
  return (out, source, start, end) => {
    let countAt = out.length;
    let count = 0;
    let i = source.indexOf(open, start) + 1;
    while (i < end && source[i] !== close) {
      if (source[i] === open) return false;
      if (source[i] === separator) {
        i++;
        continue;
      }
      if (count === 0 || count === mostInBlock) {
        countAt = out.length;
        count = 0;
        out.byte(0);
      }
      const behind = elementEnd(source, i, end, separator);
      writeElement(out, element, source, i, behind);
      i = behind;
      count++;
      out.bytes[countAt] = count << 1;
    }
    out.byte(0);
    return true;
  };
}

/** The index behind the element at `start`. */
function elementEnd(source: Uint8Array, start: number, end: number, separator: number): number {
  let i = start;
  if (source[start] !== quote) {
    while (i < end && source[i] !== separator && source[i] !== close) i++;
    return i;
  }
  i++;
  while (i < end && source[i] !== quote) i += source[i] === backslash ? 2 : 1;
  return i + 1;
}

function writeElement(
  out: ByteWriter,
  element: AvroWriter,
  source: Uint8Array,
  start: number,
  end: number,
): void {
  if (isNullWord(source, start, end)) {
    out.byte(isNull);
    return;
  }
  const at = out.length;
  out.byte(isValue);
  const isQuoted = source[start] === quote;
  if (isQuoted ? writeQuoted(out, element, source, start + 1, end - 1) : element(out, source, start, end))
    return;
  out.length = at;
  out.byte(isNull);
}

/** What stands between the quotes. */
function writeQuoted(
  out: ByteWriter,
  element: AvroWriter,
  source: Uint8Array,
  start: number,
  end: number,
): boolean {
  if (!source.subarray(start, end).includes(backslash)) return element(out, source, start, end);
  const plain = unescapedElement(source, start, end);
  return element(out, plain, 0, plain.length);
}

/** An element that is the word NULL is always in quotes. */
function isNullWord(source: Uint8Array, start: number, end: number): boolean {
  if (end - start !== 4 || source[start] !== 78) return false;
  return source[start + 1] === 85 && source[start + 2] === 76 && source[start + 3] === 76;
}
