// Finds the messages of a replication stream in the bytes of its socket. It reads them where they lie: a view or a string for
// each of millions of small messages would cost more than decoding them. What is not stream data goes to pg as it came.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION

import { type Lsn, lsn } from "../../../change/lsn.ts";
import type { ValuePacker } from "./value-packer.ts";

export interface StreamHandlers {
  /** One pgoutput message, `bytes[at, end)`: memory that is used again. */
  onMessage(bytes: Buffer, at: number, end: number): void;
  /**
   * A large one: memory that is the handler's to keep, and to write over. Before `at` lie at
   * least `roomBeforeLarge` bytes that hold nothing.
   */
  onLargeMessage(bytes: Buffer, at: number, end: number): void;
  /** The server's log ends here, and all before it has been sent. */
  onKeepalive(walEnd: Lsn, replyRequested: boolean): void;
  /** A whole message of another kind. */
  onOther(bytes: Buffer): void;
}

/**
 * A tuple is made in the memory of its message. It begins so far in front of it that it never catches up: of each of 1,600
 * columns in two tuples, a null is three bytes longer in a tuple, and a hash 64 bytes longer than what it is made of.
 */
export const roomBeforeLarge = 256 * 1024;

const copyData = 0x64;
const xLogData = 0x77;
const keepalive = 0x6b;
/** Type and length of a message. */
const headerBytes = 5;
/** Of XLogData before its payload: kind, start and end of the log, time. */
const xLogHeaderBytes = 25;

/**
 * Where in the source's log the change of the message at `at` stands, in bytes from the log's beginning: exact for eight petabytes of
 * it. 0: it stands nowhere, or has no header before it.
 */
export function logPlace(bytes: Buffer, at: number): number {
  if (at < xLogHeaderBytes) return 0;
  const start = at - xLogHeaderBytes + 1;
  return bytes.readUInt32BE(start) * 2 ** 32 + bytes.readUInt32BE(start + 4);
}

export class CopyBothReader {
  /** The beginning of a message whose end has not come. */
  #rest = Buffer.alloc(0);
  #restEnd = 0;
  /** A large message that is on its way, behind the room before it; where what has come of it ends, and how much is to come. */
  #large: Buffer | null = null;
  #largeEnd = 0;
  #largeLeft = 0;
  #packer: ValuePacker | null = null;

  constructor(
    private readonly handlers: StreamHandlers,
    /** Of a message that comes in parts: what packs its values; null: they stay as they are. */
    private readonly makePacker: () => ValuePacker | null,
    /** A message above this gets memory of its own, of its size, in which it can stay. */
    private readonly largeBytes = 1024 * 1024,
  ) {}

  push(chunk: Buffer): void {
    const at = this.#fillLarge(chunk);
    if (at === chunk.length) return;
    if (this.#restEnd === 0) {
      this.#keep(chunk, this.#read(chunk, at, chunk.length), chunk.length);
      return;
    }
    this.#append(chunk);
    const end = this.#restEnd;
    const read = this.#read(this.#rest, 0, end);
    if (read > 0 || this.#isLarge(this.#rest, 0, end)) this.#keep(this.#rest, read, end);
  }

  /** Gives a large message what has come of it. Returns what was taken of the chunk. */
  #fillLarge(chunk: Buffer): number {
    const large = this.#large;
    if (large === null) return 0;
    const taken = Math.min(chunk.length, this.#largeLeft);
    chunk.copy(large, this.#largeEnd, 0, taken);
    this.#largeEnd += taken;
    this.#largeLeft -= taken;
    this.#pack(large);
    if (this.#largeLeft === 0) {
      this.#large = null;
      this.#message(large, roomBeforeLarge, this.#largeEnd, true);
    }
    return taken;
  }

  #pack(large: Buffer): void {
    const payload = roomBeforeLarge + headerBytes;
    const at = payload + xLogHeaderBytes;
    if (this.#packer === null || this.#largeEnd <= at) return;
    if (large[roomBeforeLarge] !== copyData || large[payload] !== xLogData) this.#packer = null;
    else this.#largeEnd = this.#packer.pack(large, at, this.#largeEnd);
  }

  /** Handles the whole messages of `bytes[from, end)`. Returns where they end. */
  #read(bytes: Buffer, from: number, end: number): number {
    let at = from;
    while (at + headerBytes <= end) {
      const next = at + 1 + bytes.readUInt32BE(at + 1);
      if (next > end) break;
      this.#message(bytes, at, next);
      at = next;
    }
    return at;
  }

  #message(bytes: Buffer, at: number, end: number, isOwn = false): void {
    const payload = at + headerBytes;
    const { handlers } = this;
    if (bytes[at] !== copyData) handlers.onOther(Buffer.from(bytes.subarray(at, end)));
    else if (bytes[payload] === xLogData) {
      if (isOwn) handlers.onLargeMessage(bytes, payload + xLogHeaderBytes, end);
      else handlers.onMessage(bytes, payload + xLogHeaderBytes, end);
    } else if (bytes[payload] === keepalive) {
      handlers.onKeepalive(lsn(bytes.readBigUInt64BE(payload + 1)), bytes[payload + 17] === 1);
    }
  }

  /** Remembers `bytes[from, end)`. */
  #keep(bytes: Buffer, from: number, end: number): void {
    const length = end - from;
    if (this.#isLarge(bytes, from, end)) {
      this.#begin(bytes, from, end);
      return;
    }
    if (length > this.#rest.length || this.#rest.length > 4 * Math.max(length, 256 * 1024)) {
      const rest = Buffer.allocUnsafeSlow(Math.max(length, 128 * 1024));
      bytes.copy(rest, 0, from, end);
      this.#rest = rest;
    } else if (length > 0) {
      bytes.copy(this.#rest, 0, from, end);
    }
    this.#restEnd = length;
  }

  /** A message whose size is known: memory that grows with it would be copied again and again. */
  #begin(bytes: Buffer, from: number, end: number): void {
    const length = 1 + bytes.readUInt32BE(from + 1);
    const large = Buffer.allocUnsafeSlow(roomBeforeLarge + length);
    this.#largeEnd = roomBeforeLarge + bytes.copy(large, roomBeforeLarge, from, end);
    this.#largeLeft = length - (end - from);
    this.#large = large;
    this.#packer = this.makePacker();
    this.#pack(large);
    this.#restEnd = 0;
  }

  #append(chunk: Buffer): void {
    const end = this.#restEnd + chunk.length;
    if (end > this.#rest.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(end, this.#rest.length * 2));
      this.#rest.copy(grown, 0, 0, this.#restEnd);
      this.#rest = grown;
    }
    chunk.copy(this.#rest, this.#restEnd);
    this.#restEnd = end;
  }

  /** Whether a large message begins at `from`, of which the bytes up to `end` have come. */
  #isLarge(bytes: Buffer, from: number, end: number): boolean {
    return end - from >= headerBytes && bytes.readUInt32BE(from + 1) >= this.largeBytes;
  }
}
