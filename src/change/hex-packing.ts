// Packs the text of one value in its place, while it comes, where it is that of bytea. It goes by how the text looks, not by a
// type: what it packs can be unpacked exactly.
// https://www.postgresql.org/docs/current/datatype-binary.html#DATATYPE-BINARY-BYTEA-HEX-FORMAT

import { unpackInto } from "./packed-hex.ts";

/** A shorter text takes little: it stays as it is. */
export const packedFromBytes = 1024 * 1024;

const backslash = 0x5c;
const letterX = 0x78;
export const hexPrefixBytes = 2;

/** What digits stand for; 256 for what is none. Upper-case digits are none: they would not come back. */
const digitValues = new Uint16Array(256).fill(256);
for (let value = 0; value < 16; value++) digitValues[value.toString(16).charCodeAt(0)] = value;

/** Whether the text that begins at `at` may be that of bytea. */
export function looksPackable(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === backslash && bytes[at + 1] === letterX;
}

export class HexPacking {
  /** Bytes that the value takes so far, from where it begins. */
  packed = 0;
  /** It turned out to be no bytea, and is the text again that it was. */
  isText = false;
  /** Of the prefix, while it stands before the digits. */
  #prefix = hexPrefixBytes;

  /** Bytes of its text that are packed. */
  get taken(): number {
    return this.#prefix === 0 ? hexPrefixBytes + 2 * this.packed : 0;
  }

  /**
   * Packs what has come of the value at `valueAt`: text up to `textEnd`, but for a single last digit. What lies behind it, up to
   * `end`, moves along. Returns where that ends now. There must be room for all that came.
   */
  pack(bytes: Uint8Array, valueAt: number, textEnd: number, end: number): number {
    let write = valueAt + this.packed;
    let read = write + this.#prefix;
    for (const stop = textEnd - ((textEnd - read) & 1); read < stop; read += 2) {
      const byte = (digitValues[bytes[read]!]! << 4) | digitValues[bytes[read + 1]!]!;
      if (byte > 255) {
        this.packed = write - valueAt;
        return this.#unpack(bytes, valueAt, read, end);
      }
      bytes[write++] = byte;
    }
    bytes.copyWithin(write, read, end);
    this.packed = write - valueAt;
    this.#prefix = 0;
    return end - (read - write);
  }

  /** Makes it the text that it was. What lies behind it, up to `end`, moves along. Returns where that ends now. */
  unpack(bytes: Uint8Array, valueAt: number, end: number): number {
    return this.#unpack(bytes, valueAt, valueAt + this.packed + this.#prefix, end);
  }

  #unpack(bytes: Uint8Array, valueAt: number, read: number, end: number): number {
    const packedEnd = valueAt + this.packed;
    const textEnd = valueAt + hexPrefixBytes + 2 * this.packed;
    bytes.copyWithin(textEnd, read, end);
    unpackInto(bytes, valueAt + hexPrefixBytes, bytes, valueAt, packedEnd);
    bytes[valueAt] = backslash;
    bytes[valueAt + 1] = letterX;
    this.isText = true;
    return end + (textEnd - read);
  }
}
