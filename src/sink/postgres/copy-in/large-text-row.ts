// Writes one long row in COPY's text form, part by part while it is sent, so that memory holds no second copy of it.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

import { hexDigits, isPacked, storedBytes } from "../../../change/packed-hex.ts";
import type { TupleRef } from "../../../change/tuple.ts";
import { GcPacer } from "../../../memory/gc-pacer.ts";
import { readInt32 } from "../apply/key-index.ts";
import { copyEscapes } from "./copy-escapes.ts";

const partBytes = 64 * 1024;
const backslash = 0x5c;
const nullValue = Buffer.from("\\N");
const tab = Buffer.from("\t");
const newline = Buffer.from("\n");
/** The prefix of a bytea in hex format. */
const escapedPrefix = Buffer.from("\\\\x");

/** The row's bytes. If `group` is given, it is an additional first column; `behind` is what follows the last one. */
export function* largeTextRow(
  { bytes, start }: TupleRef,
  group: number | null,
  behind: Uint8Array | null = null,
): Generator<Uint8Array> {
  if (group !== null) yield Buffer.from(String(group));
  const columns = (bytes[start]! << 8) | bytes[start + 1]!;
  let read = start + 2;
  for (let i = 0; i < columns; i++) {
    if (i > 0 || group !== null) yield tab;
    const length = readInt32(bytes, read);
    read += 4;
    if (length < 0) {
      yield nullValue;
      continue;
    }
    const valueEnd = read + storedBytes(length);
    yield* isPacked(length) ? packedValue(bytes, read, valueEnd) : plainValue(bytes, read, valueEnd);
    read = valueEnd;
  }
  if (behind !== null) yield behind;
  yield newline;
}

function* plainValue(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  for (let at = start; at < end; at += partBytes)
    yield escaped(bytes.subarray(at, Math.min(at + partBytes, end)));
}

function* packedValue(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  const passing = new GcPacer();
  yield escapedPrefix;
  for (const part of hexDigits(bytes, start, end)) {
    yield part;
    passing.released(part.length);
  }
}

/** Most text has nothing to escape: it is returned as it is. */
function escaped(value: Uint8Array): Uint8Array {
  let count = 0;
  for (let i = 0; i < value.length; i++) if (copyEscapes[value[i]!] !== 0) count++;
  if (count === 0) return value;
  const out = new Uint8Array(value.length + count);
  let write = 0;
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!;
    const letter = copyEscapes[byte]!;
    if (letter !== 0) out[write++] = backslash;
    out[write++] = letter === 0 ? byte : letter;
  }
  return out;
}
