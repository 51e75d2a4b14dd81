// Packs the text of a bytea value in place while it arrives. It decides by the text's format, not by a type: whatever
// it packs unpacks to exactly the same text.
// https://www.postgresql.org/docs/current/datatype-binary.html#DATATYPE-BINARY-BYTEA-HEX-FORMAT

import { unpackInto } from "./packed-hex.ts";

/** A shorter text is not worth packing. */
export const packedFromBytes = 1024 * 1024;

const backslash = 0x5c;
const letterX = 0x78;
export const hexPrefixBytes = 2;

/**
 * The value of each digit; 256 for any other byte. Upper-case digits do not count: unpacking would write lower case.
 */
const digitValues = new Uint16Array(256).fill(256);
for (let value = 0; value < 16; value++) digitValues[value.toString(16).charCodeAt(0)] = value;

/** Whether the text at `at` may be that of bytea. */
export function looksPackable(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === backslash && bytes[at + 1] === letterX;
}

export class HexPacking {
  /** Bytes of the packed value so far. */
  packed = 0;
  /** The value proved not to be bytea, and is its original text again. */
  isText = false;
  /** Bytes of the `\x` prefix, until packing overwrites it. */
  #prefix = hexPrefixBytes;

  /** Bytes of the text that are packed. */
  get taken(): number {
    return this.#prefix === 0 ? hexPrefixBytes + 2 * this.packed : 0;
  }

  /**
   * Packs what has arrived of the value at `valueAt`: its text up to `textEnd`, without a single last digit. Bytes
   * behind it, up to `end`, move along. Returns their new end. The buffer must have space for the whole text.
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

  /** Restores the text. Bytes behind it, up to `end`, move along. Returns their new end. */
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
