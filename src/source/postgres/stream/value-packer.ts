// Makes a large message of a text stream smaller while it comes: bytea travels as two hex digits for a byte, and an update may
// bring two values of it, a hundred megabytes each. Such a value is packed in its place, chunk by chunk, so that the message is
// never in memory as it was sent.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import { HexPacking, hexPrefixBytes, looksPackable, packedFromBytes } from "../../../change/hex-packing.ts";
import { packedFlag } from "../../../change/packed-hex.ts";

const insertMessage = 0x49;
const updateMessage = 0x55;
const deleteMessage = 0x44;
const newTuple = 0x4e;
const textKind = 0x74;
const binaryKind = 0x62;
/** Of a message before its first column: kind, relation, letter of the tuple, number of columns. */
const messageHeaderBytes = 8;
/** Of a tuple: its letter, and the number of its columns. */
const tupleHeaderBytes = 3;
/** Of a column that has a value: its kind and its length. */
const valueHeaderBytes = 5;

/** For one message. */
export class ValuePacker {
  #state: "message" | "columns" | "value" | "passed" = "message";
  /** Where it reads next, relative to the message. */
  #at = 0;
  /** Of the tuple that is read: columns that are still to come. */
  #columns = 0;
  /** An old tuple is read, and a new one follows. */
  #isOld = false;
  #packing = new HexPacking();
  /** Of the text of the value that is packed. */
  #textBytes = 0;

  constructor(private readonly leastBytes = packedFromBytes) {}

  /**
   * Takes what has come of the message, `bytes[start, end)`, and moves it together where it packs. Returns where it ends now: there
   * the rest is to be written, with room for all that was sent of it.
   */
  pack(bytes: Buffer, start: number, end: number): number {
    let to = end;
    while (true) {
      if (this.#state === "value") {
        to = this.#packValue(bytes, start, to);
        // Its next digits have not come.
        if (this.#state === "value") return to;
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
    if (textAt + hexPrefixBytes > start + length) return false;
    if (!looksPackable(bytes, textAt)) {
      this.#pass(valueHeaderBytes + textBytes);
      return true;
    }
    this.#state = "value";
    this.#packing = new HexPacking();
    this.#textBytes = textBytes;
    return true;
  }

  #pass(bytes: number): void {
    this.#at += bytes;
    this.#columns--;
  }

  /** Packs what has come of the value. Returns where the message ends then. */
  #packValue(bytes: Buffer, start: number, end: number): number {
    const packing = this.#packing;
    const valueAt = start + this.#at + valueHeaderBytes;
    const textEnd = Math.min(end, valueAt + packing.packed + this.#textBytes - packing.taken);
    const movedEnd = packing.pack(bytes, valueAt, textEnd, end);
    if (packing.isText) this.#endValue(this.#textBytes);
    else if (packing.taken === this.#textBytes) {
      bytes.writeUInt32BE(packedFlag | packing.packed, valueAt - 4);
      this.#endValue(packing.packed);
    }
    return movedEnd;
  }

  #endValue(bytes: number): void {
    this.#state = "columns";
    this.#pass(valueHeaderBytes + bytes);
  }
}
