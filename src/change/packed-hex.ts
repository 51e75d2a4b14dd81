// Large bytea in tuples of text: it lies there as its bytes, which are half of what Postgres prints. Where its text is needed, it
// is made while that is sent. What else reads tuples asks here how long a column is.
// https://www.postgresql.org/docs/current/datatype-binary.html#DATATYPE-BINARY-BYTEA-HEX-FORMAT

/**
 * Added to a column's length in a tuple: the value's text is `\x` and the bytes that lie here, in lower-case hex digits. No value
 * is so long that its length has this bit.
 */
export const packedFlag = 0x4000_0000;

export function isPacked(length: number): boolean {
  return length >= packedFlag;
}

/** The bytes that a column takes behind its length. `length`: as it stands in the tuple. */
export function storedBytes(length: number): number {
  return length < 0 ? 0 : length & ~packedFlag;
}

/** A value as it lies in a tuple. */
export interface StoredValue {
  readonly bytes: Uint8Array;
  readonly isPacked: boolean;
}

export function textBytes({ bytes, isPacked }: StoredValue): number {
  return isPacked ? prefix.length + 2 * bytes.length : bytes.length;
}

/** Adds the value's text to a hash. */
export function hashInto(
  hash: { update(bytes: Uint8Array): unknown },
  { bytes, isPacked }: StoredValue,
): void {
  if (!isPacked) {
    hash.update(bytes);
    return;
  }
  hash.update(prefix);
  const text = new Uint8Array(2 * Math.min(partBytes, bytes.length));
  for (let at = 0; at < bytes.length; at += partBytes) {
    const to = Math.min(bytes.length, at + partBytes);
    unpackInto(text, 0, bytes, at, to);
    hash.update(text.subarray(0, 2 * (to - at)));
  }
}

const prefix = Buffer.from("\\x");
const partBytes = 64 * 1024;
const digits = Buffer.from("0123456789abcdef");

/** The digits of the packed value `bytes[start, end)`, in parts. */
export function* hexDigits(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  for (let at = start; at < end; at += partBytes) {
    const to = Math.min(end, at + partBytes);
    const text = new Uint8Array(2 * (to - at));
    unpackInto(text, 0, bytes, at, to);
    yield text;
  }
}

/** Writes the digits of `bytes[start, end)` at `text[at]`, the last ones first: they may be written over the bytes from before. */
export function unpackInto(
  text: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): void {
  let write = at + 2 * (end - start);
  for (let read = end - 1; read >= start; read--) {
    const byte = bytes[read]!;
    text[--write] = digits[byte & 15]!;
    text[--write] = digits[byte >> 4]!;
  }
}
