// Writes an array of Postgres' text form as nested JSON arrays; the elements are left to another writer.
// https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO

import type { ByteWriter } from "./byte-writer.ts";
import type { ValueWriter } from "./value-writer.ts";

const quote = 34;
const backslash = 92;
const open = 123;
const close = 125;
const nullBytes = new TextEncoder().encode("null");

/** A writer for arrays whose elements `element` writes. Bounds (`[2:4]={…}`) are left out. */
export function arrayWriter(element: ValueWriter, delimiter: string): ValueWriter {
  const separator = delimiter.charCodeAt(0);
  return (out, source, start, end) => {
    let i = start;
    // The byte before the value is not the value's: look behind only once a byte has been passed.
    if (source[i] === 91)
      do i++;
      while (i < end && source[i - 1] !== 61);
    while (i < end) {
      const byte = source[i]!;
      if (byte === open) {
        out.byte(91);
        i++;
      } else if (byte === close) {
        out.byte(93);
        i++;
      } else if (byte === separator) {
        out.byte(44);
        i++;
      } else if (byte === quote) {
        i = quotedElement(out, element, source, i, end);
      } else {
        i = bareElement(out, element, source, i, end, separator);
      }
    }
  };
}

/** An element in quotes at `start`; returns the index behind it. */
function quotedElement(
  out: ByteWriter,
  element: ValueWriter,
  source: Uint8Array,
  start: number,
  end: number,
): number {
  let i = start + 1;
  while (i < end && source[i] !== quote && source[i] !== backslash) i++;
  if (source[i] === quote) {
    element(out, source, start + 1, i);
    return i + 1;
  }
  let behind = i;
  while (behind < end && source[behind] !== quote) behind += source[behind] === backslash ? 2 : 1;
  const plain = unescapedElement(source, start + 1, behind);
  element(out, plain, 0, plain.length);
  return behind + 1;
}

/** What stands between the quotes of an element, without its escapes. */
export function unescapedElement(source: Uint8Array, start: number, end: number): Uint8Array {
  const plain = new Uint8Array(end - start);
  let length = 0;
  for (let i = start; i < end; i++) {
    if (source[i] === backslash) i++;
    plain[length++] = source[i]!;
  }
  return plain.subarray(0, length);
}

/** An element without quotes, or NULL; returns the index of what ends it. */
function bareElement(
  out: ByteWriter,
  element: ValueWriter,
  source: Uint8Array,
  start: number,
  end: number,
  separator: number,
): number {
  let i = start;
  while (i < end && source[i] !== separator && source[i] !== close) i++;
  // An element that is this word is always in quotes.
  const isNull =
    i - start === 4 &&
    source[start] === 78 &&
    source[start + 1] === 85 &&
    source[start + 2] === 76 &&
    source[start + 3] === 76;
  if (isNull) out.all(nullBytes);
  else element(out, source, start, i);
  return i;
}
