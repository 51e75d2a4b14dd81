// A packed value: large bytea in a text tuple is stored as its bytes, half the size of the hex text that Postgres
// prints. The text is made only while it is sent. All readers of tuples get a column's length from here.
// https://www.postgresql.org/docs/current/datatype-binary.html#DATATYPE-BINARY-BYTEA-HEX-FORMAT

/**
 * Added to a column's length in a tuple: the value's text is `\x` and the stored bytes in lower-case hex digits. No
 * value is so long that its length has this bit.
 */
export const packedFlag = 0x4000_0000;

export function isPacked(length: number): boolean {
  return length >= packedFlag;
}

/** The bytes that a column occupies behind its length. `length`: as the tuple stores it. */
export function storedBytes(length: number): number {
  return length < 0 ? 0 : length & ~packedFlag;
}

/** A value as a tuple stores it. */
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

/** The digits of the packed value `bytes[start, end)`, in chunks. */
export function* hexDigits(bytes: Uint8Array, start: number, end: number): Generator<Uint8Array> {
  for (let at = start; at < end; at += partBytes) {
    const to = Math.min(end, at + partBytes);
    const text = new Uint8Array(2 * (to - at));
    unpackInto(text, 0, bytes, at, to);
    yield text;
  }
}

/**
 * Writes the digits of `bytes[start, end)` at `text[at]`, from the last to the first, so that the digits may overwrite
 * the bytes.
 */
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
