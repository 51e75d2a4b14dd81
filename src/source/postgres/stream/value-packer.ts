// Shrinks a large message of a text stream while it arrives. bytea is sent as two hex digits for each byte, and an
// update may bring two values of a hundred megabytes. Such a value is packed in place, chunk by chunk, so that the
// message is never in memory in full.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import { HexPacking, hexPrefixBytes, looksPackable, packedFromBytes } from "../../../change/hex-packing.ts";
import { packedFlag } from "../../../change/packed-hex.ts";

const insertMessage = 0x49;
const updateMessage = 0x55;
const deleteMessage = 0x44;
const newTuple = 0x4e;
const textKind = 0x74;
const binaryKind = 0x62;
/** The part of a message before its first column, without an xid: tag, relation, tag of the tuple, number of columns. */
const messageHeaderBytes = 8;
/** The part of a tuple before its first column: its tag and the number of columns. */
const tupleHeaderBytes = 3;
/** The part of a column before its value: kind and length. */
const valueHeaderBytes = 5;

/** Packs one message. */
export class ValuePacker {
  #state: "message" | "columns" | "value" | "done" = "message";
  /** Offset in the message that is read next. */
  #at = 0;
  /** Columns of the current tuple that are still to come. */
  #columns = 0;
  /** The current tuple is an old one; a new one follows. */
  #isOld = false;
  #packing = new HexPacking();
  /** Length of the text that is being packed. */
  #textBytes = 0;

  /** `xidBytes`: within a stream block each message has the xid of its (sub)transaction behind its tag. */
  constructor(
    private readonly xidBytes = 0,
    private readonly leastBytes = packedFromBytes,
  ) {}

  /**
   * Packs what has arrived of the message, `bytes[start, end)`, and moves the rest up. Returns the new end, where the
   * next chunk is to be written. The buffer must have space for the whole message as sent.
   */
  pack(bytes: Buffer, start: number, end: number): number {
    let to = end;
    while (true) {
      if (this.#state === "value") {
        to = this.#packValue(bytes, start, to);
        // The next digits have not arrived.
        if (this.#state === "value") return to;
      } else if (!this.#step(bytes, start, to)) return to;
    }
  }

  /** Reads the next item. False: it has not arrived, or nothing more is to be read. */
  #step(bytes: Buffer, start: number, end: number): boolean {
    const length = end - start;
    if (this.#state === "done") return false;
    if (this.#state === "message") return this.#beginMessage(bytes, start, length);
    return this.#columns === 0
      ? this.#beginNewTuple(bytes, start, length)
      : this.#readColumn(bytes, start, length);
  }

  #beginMessage(bytes: Buffer, start: number, length: number): boolean {
    const headerBytes = messageHeaderBytes + this.xidBytes;
    if (length < headerBytes) return false;
    const kind = bytes[start]!;
    const hasRow = kind === insertMessage || kind === updateMessage || kind === deleteMessage;
    this.#isOld = kind === updateMessage && bytes[start + headerBytes - tupleHeaderBytes] !== newTuple;
    this.#columns = bytes.readUInt16BE(start + headerBytes - 2);
    this.#at = headerBytes;
    this.#state = hasRow ? "columns" : "done";
    return hasRow;
  }

  #beginNewTuple(bytes: Buffer, start: number, length: number): boolean {
    if (!this.#isOld) this.#state = "done";
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

  /** Packs what has arrived of the value. Returns the message's new end. */
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
