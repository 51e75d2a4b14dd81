// One long row as COPY's text form writes it, made in parts while it is sent: the row itself is the only copy in memory.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

import { copyEscapes } from "./copy-escapes.ts";
import { readInt32 } from "./key-index.ts";
import type { TupleRef } from "./net-changes.ts";

const partBytes = 64 * 1024;
const backslash = 0x5c;
const nullValue = Buffer.from("\\N");
const tab = Buffer.from("\t");
const newline = Buffer.from("\n");

/** The row's bytes, with a column before it that holds `group`, where that is given. */
export function* largeTextRow({ bytes, start }: TupleRef, group: number | null): Generator<Uint8Array> {
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
    for (let at = read; at < read + length; at += partBytes) {
      yield escaped(bytes.subarray(at, Math.min(at + partBytes, read + length)));
    }
    read += length;
  }
  yield newline;
}

/** Most text has nothing to escape, and goes as it lies. */
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
