// Writes values as COPY's text form has them: tabs between them, \N for a null, and some bytes behind a backslash.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

import { readInt32 } from "../apply/key-index.ts";

const tab = 0x09;
const backslash = 0x5c;
const letterN = 0x4e;

/** For each byte, the letter that comes after a backslash; 0 for bytes that need no escape. */
export const copyEscapes = new Uint8Array(256);
for (const [byte, letter] of [
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0b, "v"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x5c, "\\"],
] as const) {
  copyEscapes[byte] = letter.charCodeAt(0);
}

/**
 * Writes the values of the tuple that begins at `start` to `chunk`, from `at` on, and returns where they end. They take at most twice the
 * tuple's bytes. `follows`: other values stand before them in the row.
 */
export function writeTextValues(
  chunk: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  follows: boolean,
): number {
  let write = at;
  const columns = (bytes[start]! << 8) | bytes[start + 1]!;
  let read = start + 2;
  for (let i = 0; i < columns; i++) {
    if (i > 0 || follows) chunk[write++] = tab;
    const length = readInt32(bytes, read);
    read += 4;
    if (length < 0) {
      chunk[write++] = backslash;
      chunk[write++] = letterN;
    }
    for (const valueEnd = read + Math.max(0, length); read < valueEnd; read++) {
      const byte = bytes[read]!;
      const letter = copyEscapes[byte]!;
      if (letter !== 0) chunk[write++] = backslash;
      chunk[write++] = letter === 0 ? byte : letter;
    }
  }
  return write;
}
