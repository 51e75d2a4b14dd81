// Makes a large message of a text stream smaller while it comes: bytea travels as two hex digits for a byte, and an update may
// bring two values of it, a hundred megabytes each. Such a value is packed in its place, chunk by chunk, so that the message is
// never in memory as it was sent. It goes by how a value looks, not by its type: what it packs can be unpacked exactly.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import { packedFlag, unpackInto } from "../../change/packed-hex.ts";

const insertMessage = 0x49;
const updateMessage = 0x55;
const deleteMessage = 0x44;
const newTuple = 0x4e;
const textKind = 0x74;
const binaryKind = 0x62;
const backslash = 0x5c;
const letterX = 0x78;
/** Of a message before its first column: kind, relation, letter of the tuple, number of columns. */
const messageHeaderBytes = 8;
/** Of a tuple: its letter, and the number of its columns. */
const tupleHeaderBytes = 3;
/** Of a column that has a value: its kind and its length. */
const valueHeaderBytes = 5;
/** Of the text of bytea, `\x`. */
const prefixBytes = 2;

/** A smaller value takes little. */
const defaultLeastBytes = 1024 * 1024;

/** What digits stand for; 256 for what is none. Upper-case digits are none: they would not come back. */
const digitValues = new Uint16Array(256).fill(256);
for (let value = 0; value < 16; value++) digitValues[value.toString(16).charCodeAt(0)] = value;

/** For one message. */
export class ValuePacker {
  #state: "message" | "columns" | "value" | "passed" = "message";
  /** Where it reads next, relative to the message. */
  #at = 0;
  /** Of the tuple that is read: columns that are still to come. */
  #columns = 0;
  /** An old tuple is read, and a new one follows. */
  #isOld = false;
  /** Of the value that is packed: the bytes that are, the digits that are not, and the prefix where it still stands before those. */
  #packed = 0;
  #digits = 0;
  #prefix = 0;

  constructor(private readonly leastBytes = defaultLeastBytes) {}

  /**
   * Takes what has come of the message, `bytes[start, end)`, and moves it together where it packs. Returns where it ends now: there
   * the rest is to be written, with room for all that was sent of it.
   */
  pack(bytes: Buffer, start: number, end: number): number {
    let to = end;
    while (true) {
      if (this.#state === "value") {
        to = this.#packValue(bytes, start, to);
        // The next digits have not come.
        if (this.#digits > 0) return to;
      } else if (!this.#step(bytes, start, to)) return to;
    }
  }

  /** Reads what comes next. False: it has not come as far, or there is nothing more to read. */
  #step(bytes: Buffer, start: number, end: number): boolean {
    const length = end - start;
    if (this.#state === "passed") return false;
    if (this.#state === "message") return this.#beginMessage(bytes, start, length);
    return this.#columns === 0
      ? this.#beginNewTuple(bytes, start, length)
      : this.#readColumn(bytes, start, length);
  }

  #beginMessage(bytes: Buffer, start: number, length: number): boolean {
    if (length < messageHeaderBytes) return false;
    const kind = bytes[start]!;
    const hasRow = kind === insertMessage || kind === updateMessage || kind === deleteMessage;
    this.#isOld = kind === updateMessage && bytes[start + 5] !== newTuple;
    this.#columns = bytes.readUInt16BE(start + messageHeaderBytes - 2);
    this.#at = messageHeaderBytes;
    this.#state = hasRow ? "columns" : "passed";
    return hasRow;
  }

  #beginNewTuple(bytes: Buffer, start: number, length: number): boolean {
    if (!this.#isOld) this.#state = "passed";
    if (!this.#isOld || this.#at + tupleHeaderBytes > length) return false;
    this.#isOld = false;
    this.#columns = bytes.readUInt16BE(start + this.#at + 1);
    this.#at += tupleHeaderBytes;
    return true;
  }

  #readColumn(bytes: Buffer, start: number, length: number): boolean {
    const at = start + this.#at;
    if (this.#at >= length) return false;
    const kind = bytes[at];
    if (kind !== textKind && kind !== binaryKind) {
      this.#pass(1);
      return true;
    }
    if (this.#at + valueHeaderBytes > length) return false;
    const textBytes = bytes.readUInt32BE(at + 1);
    if (kind === binaryKind || textBytes < this.leastBytes || textBytes % 2 !== 0) {
      this.#pass(valueHeaderBytes + textBytes);
      return true;
    }
    const textAt = at + valueHeaderBytes;
    if (textAt + prefixBytes > start + length) return false;
    if (bytes[textAt] !== backslash || bytes[textAt + 1] !== letterX) {
      this.#pass(valueHeaderBytes + textBytes);
      return true;
    }
    this.#state = "value";
    this.#packed = 0;
    this.#prefix = prefixBytes;
    this.#digits = textBytes - prefixBytes;
    return true;
  }

  #pass(bytes: number): void {
    this.#at += bytes;
    this.#columns--;
  }

  /** Packs the digits that have come. Returns where the message ends then. */
  #packValue(bytes: Buffer, start: number, end: number): number {
    const valueAt = start + this.#at + valueHeaderBytes;
    let write = valueAt + this.#packed;
    let read = write + this.#prefix;
    const pairs = Math.min(end - read, this.#digits) >> 1;
    for (const stop = read + 2 * pairs; read < stop; read += 2) {
      const byte = (digitValues[bytes[read]!]! << 4) | digitValues[bytes[read + 1]!]!;
      if (byte > 255) return this.#unpack(bytes, valueAt, write, read, end);
      bytes[write++] = byte;
    }
    bytes.copyWithin(write, read, end);
    this.#prefix = 0;
    this.#packed += pairs;
    this.#digits -= 2 * pairs;
    if (this.#digits === 0) {
      bytes.writeUInt32BE(packedFlag | this.#packed, valueAt - 4);
      this.#endValue(this.#packed);
    }
    return end - (read - write);
  }

  /** It is no bytea after all: what is packed of it, `bytes[valueAt, packedEnd)`, becomes the text again that it was. */
  #unpack(bytes: Buffer, valueAt: number, packedEnd: number, read: number, end: number): number {
    const textEnd = valueAt + prefixBytes + 2 * (packedEnd - valueAt);
    bytes.copyWithin(textEnd, read, end);
    unpackInto(bytes, valueAt + prefixBytes, bytes, valueAt, packedEnd);
    bytes[valueAt] = backslash;
    bytes[valueAt + 1] = letterX;
    this.#digits = 0;
    this.#endValue(bytes.readUInt32BE(valueAt - 4));
    return end + (textEnd - read);
  }

  #endValue(bytes: number): void {
    this.#state = "columns";
    this.#pass(valueHeaderBytes + bytes);
  }
}
